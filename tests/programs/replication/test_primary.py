"""The primary's side: who is let in, when an answer comes, what a fence does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.net.address import join_host_port
from penstock.replication.copy import Copy
from penstock.replication.feed import NBYTES_MAX
from penstock.replication.messages import encode_fetch
from penstock.replication.pace import WINDOW_NS
from penstock.replication.peer import Fence
from penstock.replication.standing import Standing, write_standing
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Running, Start, faulty_disk, pub

MIB = 1024 * 1024


class Follower:
    """A copy in a folder, which asks over HTTP."""

    def __init__(self, nsqd: Running, folder: Path, history: str = "", epoch: int = 0) -> None:
        folder.mkdir()
        self.nsqd = nsqd
        self.copy = Copy(Store(OsDisk(), str(folder), LogOptions()))
        self.history, self.epoch = history, epoch

    async def ask(self) -> tuple[int, bytes]:
        fetch = self.copy.request(self.history, self.epoch, NBYTES_MAX, "127.0.0.1:1")
        return await self.nsqd.post("/replication/fetch", encode_fetch(fetch))

    async def follow(self) -> int:
        """Ask and take; the bytes of the answer."""
        status, body = await self.ask()
        assert status == 200, body
        hello = self.copy.take(body)
        if hello is not None:
            self.history, self.epoch = hello.history, hello.epoch
            self.copy.begin_run(hello)
        return len(body)

    async def until_whole(self) -> None:
        async with asyncio.timeout(4 * TIMEOUT_S):
            await self.follow()
            while not self.copy.is_whole:
                await self.follow()


async def test_a_request_waits_for_news_and_gets_it(nsqd: Running, tmp_path: Path) -> None:
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.until_whole()
    await nsqd.publish("t", b"2")
    async with asyncio.timeout(TIMEOUT_S):
        while follower.copy.topics["t"].log.next_offset < 2:
            await follower.follow()
    [shown] = (await nsqd.json("/replication"))["followers"]
    assert shown["address"] == "127.0.0.1:1"
    assert shown["lag_messages"] <= 1
    follower.copy.close()


async def test_strangers_are_refused(nsqd: Running, tmp_path: Path) -> None:
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.until_whole()
    follower.copy.close()
    for name, history, epoch, code in (
        ("a", "another", 1, "OTHER_HISTORY"),
        ("b", follower.history, 9, "LOWER_EPOCH"),
    ):
        stranger = Follower(nsqd, tmp_path / name, history, epoch)
        status, body = await stranger.ask()
        assert (status, json.loads(body)["message"]) == (409, code)
        stranger.copy.close()
    assert (await nsqd.post("/replication/fetch", b"no request"))[0] == 400


async def test_a_secret_is_asked_for_where_there_is_one(start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct-horse-battery")
    nsqd = await start(replication_secret_file=str(tmp_path / "secret"))
    follower = Follower(nsqd, tmp_path / "copy")
    assert (await follower.ask())[0] == 403
    assert (await nsqd.post("/replication/fence", b"{}"))[0] == 403
    follower.copy.close()


async def test_a_follower_that_could_not_be_noted_is_noted_later(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start asks those nodes alone whether one of them was promoted."""
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.follow()
    disk.fail("replace", within="replication.json")
    status, body = await follower.ask()
    assert (status, json.loads(body)["message"]) == (500, "INTERNAL_ERROR")
    await follower.until_whole()
    written = json.loads(disk.content("/data/replication.json"))
    assert written["followers"] == ["127.0.0.1:1"]
    follower.copy.close()


async def test_small_files_that_cannot_be_read_are_no_news_that_is_lost(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.follow()
    disk.fail("list", within="config", times=-1)
    for _ in range(2):
        assert (await follower.ask())[0] == 500
    disk.heal()
    await follower.until_whole()
    assert follower.copy.store.read_file("nsqd.dat") is not None
    disk.fail("list", within="config", times=-1)
    async with asyncio.timeout(TIMEOUT_S):
        while (asked := await follower.ask())[0] == 200:  # the journal may have grown meanwhile
            follower.copy.take(asked[1])
    assert asked[0] == 500
    assert "housekeeping failed" not in caplog.text
    disk.heal()
    await follower.until_whole()
    follower.copy.close()


async def test_a_node_ends_that_could_not_write_down_that_it_was_heard(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hears(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    disk = faulty_disk(monkeypatch)
    async with await asyncio.start_server(hears, "127.0.0.1", 0) as before:
        address = join_host_port(*before.sockets[0].getsockname())
        promoted = Standing("h", 2, primary=address, fork={}, owes_fence=True)
        write_standing(disk, "/data", promoted)
        disk.fail("replace", within="replication.json", times=-1)
        nsqd = await start(data_path="/data")
        await nsqd.until(lambda: "cannot write down what this node owed" in caplog.text)
        assert nsqd.nsqd.primary.standing is not None
        assert not nsqd.nsqd.primary.standing.owes_fence
        await nsqd.nsqd.primary.close()
    assert json.loads(disk.content("/data/replication.json"))["owes_fence"]


async def test_what_is_only_in_memory_is_not_copied(start: Start, tmp_path: Path) -> None:
    nsqd = await start(durability=Durability.MEMORY)
    follower = Follower(nsqd, tmp_path / "copy")
    status, body = await follower.ask()
    assert (status, json.loads(body)["message"]) == (409, "DURABILITY_MEMORY_IS_NOT_COPIED")
    follower.copy.close()


async def test_a_fence_of_a_higher_epoch_ends_publishing_at_once(
    nsqd: Running, tmp_path: Path
) -> None:
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.until_whole()
    turned: list[bool] = []
    nsqd.nsqd.primary._turn = lambda: turned.append(True)

    async def fence(**fields: Any) -> tuple[int, bytes]:
        told = Fence(**{"history": follower.history, "epoch": 2, "address": "b:1", **fields})
        return await nsqd.post("/replication/fence", msgspec.json.encode(told))

    for fields, code in (({"history": "x"}, "OTHER_HISTORY"), ({"epoch": 1}, "LOWER_EPOCH")):
        status, body = await fence(**fields)
        assert (status, json.loads(body)["message"]) == (409, code)
    assert not turned
    assert (await fence())[0] == 200
    assert turned == [True]
    status, body = await follower.ask()
    assert (status, json.loads(body)["message"]) == (503, "STEPPING_BACK"), "its end is to come"
    client = await nsqd.connect()
    assert "exiting" in await client.error(pub("t", b"2"))
    written = json.loads((Path(nsqd.nsqd.options.data_path) / "replication.json").read_bytes())
    assert (written["role"], written["epoch"], written["fenced_epoch"]) == ("fenced", 1, 2)
    follower.copy.close()


async def go_on(clock: FakeClock) -> None:
    """Let time pass."""
    while True:
        clock.advance(WINDOW_NS)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_waited_for", [False, True])
async def test_a_follower_that_is_behind_is_answered_gently_while_many_publish(
    start: Start, tmp_path: Path, is_waited_for: bool
) -> None:
    clock = FakeClock()  # many a second, however long a busy machine takes for them
    nsqd = await start(clock)
    if is_waited_for:  # by the sends of a SYNC_MASTER, say
        nsqd.nsqd.node.followers.changed.append(lambda: None)
    for _ in range(80):
        await nsqd.publish("t", bytes(MIB // 8))
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.follow()
    full = await follower.follow()
    clock.advance(WINDOW_NS)
    await nsqd.publish("t", *[b"x"] * 5000)
    gentle = await follower.follow()
    assert (gentle < full / 2) is not is_waited_for
    going = asyncio.create_task(go_on(clock))
    await follower.until_whole()
    going.cancel()
    assert follower.copy.topics["t"].log.next_offset == 5080
    follower.copy.close()

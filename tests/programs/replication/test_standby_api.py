"""The HTTP of a fenced node, which hands over what it has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from penstock.core.errors import DiskFullError
from penstock.net.http.client.once import request
from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort
from penstock.replication.messages import decode_fetch, encode_fetch
from penstock.replication.peer import Fence
from penstock.replication.secret import Secret
from penstock.replication.standby import Standby
from penstock.replication.standby_api import serve
from penstock.replication.standing import Role, Standing, write_standing
from penstock.storage.files.disk import OsDisk
from penstock.storage.recovery.damage import Damage
from tests.programs.nsq.nsqd.conftest import Start, options
from tests.unit.replication.pieces import new_copy
from tools.harness.ports import unused_address


async def test_a_fenced_node_gives_all_it_has_and_counts_what_only_it_has(
    start: Start, tmp_path: Path
) -> None:
    nsqd = await start(data_path=tmp_path)
    await nsqd.publish("t", b"1", b"2", b"3")
    assert (await nsqd.post("/topic/pause?topic=t"))[0] == 200
    topic = nsqd.nsqd.node.broker.topics["t"]
    base = topic.log.id_base
    topic.damage.report(Damage("log", "lost once", first=7, next=8), is_loss=False)
    await nsqd.stop()
    standing = Standing("h", 1, Role.FENCED, "b:1", fenced_epoch=2)
    standby = Standby(options(tmp_path), standing, Secret(), lambda: None)
    refusals = RefusalPort(standby.refusal_line)
    await standby.open(serve(standby), refusals)

    async def ask(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        answer = await request(
            method, f"http://127.0.0.1:{standby.ports.http}{path}", 30, body=body
        )
        return answer.status, answer.body

    async def fence(epoch: int, fork: dict[str, tuple[int, int]]) -> int:
        told = Fence("h", epoch, "b:1", fork)
        return (await ask("POST", "/replication/fence", msgspec.json.encode(told)))[0]

    try:
        copy = new_copy()
        stranger = encode_fetch(copy.request("h", 1, 1 << 20, "c:1"))
        status, body = await ask("POST", "/replication/fetch", stranger)
        assert (status, json.loads(body)) == (
            409, {"message": "FENCED", "epoch": 2, "primary": "b:1"})  # fmt: skip
        for _ in range(4):
            fetch = encode_fetch(copy.request("h", 1, 1 << 20, "b:1"))
            hello = copy.take((await ask("POST", "/replication/fetch", fetch))[1])
            if hello is not None:
                copy.begin_run(hello)
        assert decode_fetch(fetch).run
        assert copy.is_whole
        assert copy.topics["t"].log.next_offset == 3
        assert b'"paused":true' in (copy.store.read_file("nsqd.dat") or b"")
        assert await fence(1, {}) == 409
        assert await fence(2, {"t": (base, 1)}) == 200
        shown = json.loads((await ask("GET", "/replication"))[1])
        assert (shown["role"], shown["only_here"]) == ("fenced", {"t": 2})
        status, body = await ask("POST", "/pub?topic=t", b"x")
        assert (status, json.loads(body)["message"]) == (503, "FENCED")
        assert (await ask("POST", "/replication/promote"))[0] == 409
        assert (await ask("GET", "/ping"))[0] == 500
        reader, writer = await asyncio.open_connection("127.0.0.1", standby.ports.tcp)
        writer.write(b"  V2")
        assert b"E_FENCED fenced: b:1 is primary in epoch 2" in await reader.read()
        writer.close()
    finally:
        await standby.close()
        refusals.close_connections()


async def test_a_copy_is_whole_once_it_may_be_promoted(tmp_path: Path) -> None:
    """Not while all that it has taken is still synced, which takes long after a long backlog."""
    primary = unused_address()
    standing = Standing("h", 1, Role.FOLLOWER, primary)
    standby = Standby(options(tmp_path, follow=primary), standing, Secret(), lambda: None)
    await standby.open(serve(standby))
    try:
        standby.copy.is_whole = True
        for standing.was_whole in (False, True):
            answer = await request(
                "GET", f"http://127.0.0.1:{standby.ports.http}/replication", 30, body=b""
            )
            assert json.loads(answer.body)["whole"] is standing.was_whole
    finally:
        await standby.close()


async def test_a_standing_that_is_right_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower starts on a full disk, and may be read and promoted."""
    primary = unused_address()
    standing = Standing("h", 1, Role.FOLLOWER, primary)
    write_standing(OsDisk(), str(tmp_path), standing)

    def full(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        raise DiskFullError(f"{path}: No space left on device")

    monkeypatch.setattr(OsDisk, "replace_file", full)
    standby = Standby(options(tmp_path, follow=primary), standing, Secret(), lambda: None)
    await standby.open(serve(standby))
    await standby.close()
    standing.was_whole = True
    changed = Standby(options(tmp_path, follow=primary), standing, Secret(), lambda: None)
    with pytest.raises(DiskFullError):
        await changed.open(serve(changed))
    await changed.close()


async def test_a_promotion_that_cannot_be_written_down_leaves_no_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = unused_address()
    standing = Standing("h", 1, Role.FOLLOWER, primary, was_whole=True)
    standby = Standby(options(tmp_path, follow=primary), standing, Secret(), lambda: None)
    await standby.open(serve(standby))
    replace_file = OsDisk.replace_file

    def refuse(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        if path.endswith("replication.json"):
            raise DiskFullError(f"{path}: No space left on device")
        replace_file(disk, path, *data, sync=sync)

    monkeypatch.setattr(OsDisk, "replace_file", refuse)
    try:
        with pytest.raises(DiskFullError):
            await standby.promote(force=True)
        assert standby.standing.role is Role.FOLLOWER
        assert json.loads((tmp_path / "epochs.json").read_bytes())["epochs"] == []
    finally:
        await standby.close()

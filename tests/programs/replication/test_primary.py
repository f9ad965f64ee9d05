"""A primary, its peers and its port; publishes that wait for copies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.net.address import join_host_port
from penstock.node.ports import Ports
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.replication.copy import Copy
from penstock.replication.feed import NBYTES_MAX
from penstock.replication.messages import (
    VERSION,
    Fetch,
    Hello,
    decode_parts,
    encode_ack,
    encode_fetch,
)
from penstock.replication.pace import WINDOW_NS
from penstock.replication.peer import Fence, Peer, PeerError, PeerStream, address_of
from penstock.replication.port import ReplicationPort
from penstock.replication.primary import Primary
from penstock.replication.secret import Secret
from penstock.replication.state import ReplicationState, write_state
from penstock.replication.stream import AHEAD
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.storage.batch import Buffer
from penstock.storage.durability import Durability
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import Daemon, run_nsqd
from tests.copies import WAIT_S_MAX, ask, until, until_copied
from tests.dialects.test_programs import rocketmq_port
from tests.forwarding import wait_until
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Running, Start, faulty_disk, pub
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient

MIB = 1024 * 1024


class Follower:
    """A copy in a folder, which asks over HTTP."""

    def __init__(self, nsqd: Running, folder: Path, history: str = "", epoch: int = 0) -> None:
        folder.mkdir()
        self.peer = Peer(address_of(nsqd.nsqd.options, nsqd.nsqd.ports), NsqdOptions(), Secret())
        self.copy = Copy(Store(OsDisk(), str(folder), LogOptions()))
        self.history, self.epoch = history, epoch
        self.stream: PeerStream | None = None

    async def next(self) -> Buffer:
        """The next answer, of a new stream if there is none. Raises PeerError."""
        try:
            if self.stream is None:
                fetch = self.copy.request(self.history, self.epoch, NBYTES_MAX, "127.0.0.1:1")
                self.stream = await self.peer.stream(
                    "/replication/fetch", encode_fetch(fetch), TIMEOUT_S
                )
            return await self.stream.next(TIMEOUT_S)
        except PeerError:
            self.leave()
            raise

    def leave(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    async def refusal(self) -> str:
        """The code with which a new stream is refused."""
        self.leave()
        with pytest.raises(PeerError) as refused:
            await self.next()
        return refused.value.code

    async def follow(self) -> int:
        """Take an answer and say so; the bytes of the answer."""
        answer = await self.next()
        hello = self.copy.take(answer)
        if hello is not None:
            self.history, self.epoch = hello.history, hello.epoch
            self.copy.begin_run(hello)
            self.leave()
        elif self.stream is not None:
            self.stream.say(encode_ack(self.copy.acknowledge()))
        return len(answer)

    async def go_on(self) -> None:
        """Follow until that fails."""
        while True:
            await self.follow()

    async def until_whole(self) -> None:
        async with asyncio.timeout(4 * TIMEOUT_S):
            await self.follow()
            while not self.copy.is_whole:
                await self.follow()

    async def close(self) -> None:
        self.leave()
        await self.peer.close()
        self.copy.close()


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
    await follower.close()


async def test_strangers_are_refused(nsqd: Running, tmp_path: Path) -> None:
    await nsqd.publish("t", b"1")
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.until_whole()
    await follower.close()
    for name, history, epoch, code in (
        ("a", "another", 1, "OTHER_HISTORY"),
        ("b", follower.history, 9, "LOWER_EPOCH"),
    ):
        stranger = Follower(nsqd, tmp_path / name, history, epoch)
        assert await stranger.refusal() == code
        await stranger.close()
    assert (await nsqd.post("/replication/fetch", b"no request"))[0] == 400


async def test_a_secret_is_asked_for_where_there_is_one(start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct-horse-battery")
    nsqd = await start(replication_secret_file=str(tmp_path / "secret"))
    follower = Follower(nsqd, tmp_path / "copy")
    assert await follower.refusal() == "REPLICATION_SECRET_REQUIRED"
    assert (await nsqd.post("/replication/fence", b"{}"))[0] == 403
    await follower.close()


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
    assert await follower.refusal() == "INTERNAL_ERROR"
    await follower.until_whole()
    written = json.loads(disk.content("/data/replication.json"))
    assert written["followers"] == ["127.0.0.1:1"]
    await follower.close()


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
        assert await follower.refusal() == "INTERNAL_ERROR"
    disk.heal()
    await follower.until_whole()
    assert follower.copy.store.read_file("nsqd.dat") is not None
    disk.fail("list", within="config", times=-1)
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(PeerError, match="has closed the connection"):
            await follower.go_on()  # the small files were read a moment ago
    assert await follower.refusal() == "INTERNAL_ERROR"
    assert "housekeeping failed" not in caplog.text
    disk.heal()
    await follower.until_whole()
    await follower.close()


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
        promoted = ReplicationState("h", 2, primary=address, fork={}, owes_fence=True)
        write_state(disk, "/data", promoted)
        disk.fail("replace", within="replication.json", times=-1)
        nsqd = await start(data_path="/data")
        await nsqd.until(lambda: "cannot write down what this node owed" in caplog.text)
        assert nsqd.nsqd.primary.state is not None
        assert not nsqd.nsqd.primary.state.owes_fence
        await nsqd.nsqd.primary.close()
    assert json.loads(disk.content("/data/replication.json"))["owes_fence"]


async def test_what_is_only_in_memory_is_not_copied(start: Start, tmp_path: Path) -> None:
    nsqd = await start(durability=Durability.MEMORY)
    follower = Follower(nsqd, tmp_path / "copy")
    assert await follower.refusal() == "DURABILITY_MEMORY_IS_NOT_COPIED"
    await follower.close()


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
    with pytest.raises(PeerError, match="has closed the connection"):
        await follower.go_on()
    assert await follower.refusal() == "STEPPING_BACK", "its end is to come"
    client = await nsqd.connect()
    assert "exiting" in await client.error(pub("t", b"2"))
    written = json.loads((Path(nsqd.nsqd.options.data_path) / "replication.json").read_bytes())
    assert (written["role"], written["epoch"], written["fenced_epoch"]) == ("fenced", 1, 2)
    await follower.close()


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
    for _ in range(160):
        await nsqd.publish("t", bytes(MIB // 8))
    follower = Follower(nsqd, tmp_path / "copy")
    await follower.follow()
    full = await follower.follow()
    await nsqd.publish("t", *[b"x"] * 5000)
    clock.advance(WINDOW_NS)
    for _ in range(AHEAD):  # these were sent before
        await follower.follow()
    gentle = await follower.follow()
    assert (gentle < full / 2) is not is_waited_for
    going = asyncio.create_task(go_on(clock))
    await follower.until_whole()
    going.cancel()
    assert follower.copy.topics["t"].log.next_offset == 5160
    await follower.close()


# --- Publishes whose OK waits for copies, at real nodes ------------------------------------------


ACKED = "--replicas-acked=1"
ALONE = "publishes are acknowledged without"


def until_in_force(primary: Daemon, number: int) -> None:
    """Wait until an OK of the primary says that there are this many copies."""
    for _ in range(WAIT_S_MAX * 20):
        if ask(primary, "GET", "/replication")[1].get("replicas_in_force") == number:
            return
        time.sleep(0.05)
    raise AssertionError(primary.log()[-3000:])


def end(daemon: Daemon) -> int:
    """The end of the log of topic t, as readers see it."""
    status, answer = ask(daemon, "GET", "/log/offsets?topic=t")
    return int(answer["queues"][0]["end"]) if status == 200 else -1


def publish(daemon: Daemon, body: bytes) -> tuple[int, Any]:
    status, answer = ask(daemon, "POST", "/pub?topic=t", body)
    return status, answer if status == 200 else answer["message"]


def publish_copied(daemon: Daemon, body: bytes) -> None:
    """Publish until it is acknowledged: on a busy machine a copy that is there may not ask for
    seconds, and is taken for gone meanwhile.
    """
    for _ in range(WAIT_S_MAX * 20):
        if publish(daemon, body) == (200, b"OK"):
            return
        time.sleep(0.05)
    raise AssertionError(daemon.log()[-3000:])


@pytest.mark.parametrize("level", ["write", "fsync"])
def test_an_ok_is_said_when_the_copy_has_the_message(level: str) -> None:
    flags = (f"--durability={level}", ACKED)
    with run_nsqd(*flags) as old:
        assert publish(old, b"0") == (503, "NOT_COPIED")
        until(old, epoch=0, replicas_acked=1, replicas_in_force=0, replicas_missing="refuse")
        with socket.create_connection(("127.0.0.1", old.tcp_port), WAIT_S_MAX) as client:
            client.sendall(b"  V2PUB t\n\0\0\0\1x")
            refused = b"E_PUB_FAILED PUB failed 0 of 1 copies follow"
            answer = client.recv(8 + len(refused), socket.MSG_WAITALL)
            assert answer.endswith(refused), answer
        with run_nsqd(f"--follow={old.http}", *flags) as new:
            until_in_force(old, 1)
            for number in range(20):
                publish_copied(old, b"%d" % number)
                assert end(new) >= number + 1, "the copy has it by now"
            count = end(old)
            assert count >= 20, "what was not acknowledged may be there"
            old.kill()
            assert ask(new, "POST", "/replication/promote")[0] == 200
            until(new, role="primary", epoch=2, before=old.http)
            assert end(new) == count
            assert publish(new, b"20") == (503, "NOT_COPIED")


def test_a_message_that_is_not_copied_is_neither_acknowledged_nor_seen() -> None:
    with (
        run_nsqd(ACKED, "--replicas-timeout=2s") as old,
        run_nsqd(f"--follow={old.http}") as new,
    ):
        for _ in range(10):
            until_in_force(old, 1)
            publish_copied(old, b"0")
            before = end(old)
            if waits_for_a_stopped_copy(old, new):
                break
        else:
            raise AssertionError(old.log()[-3000:])
        until_in_force(old, 1)
        publish_copied(old, b"2")
        assert end(old) >= before + 2, "what was not acknowledged may be there"


def waits_for_a_stopped_copy(old: Daemon, new: Daemon) -> bool:
    """Whether a publish was taken, which a busy machine may keep up until the copy is given up."""
    before = end(old)
    os.kill(new.pid, signal.SIGSTOP)
    try:
        assert publish(old, b"1") == (503, "NOT_COPIED")
        assert end(old) == before
        waiting = ask(old, "GET", "/replication")[1]["messages_waiting"]
        until_in_force(old, 0)
        assert "0 of 1 copies follow: publishes are refused" in old.log()
    finally:
        os.kill(new.pid, signal.SIGCONT)
    return bool(waiting == 1)


def test_a_node_may_go_on_without_copies_and_says_so() -> None:
    with run_nsqd(ACKED, "--replicas-missing=go-on", "--replicas-timeout=60s") as old:
        assert publish(old, b"0") == (200, b"OK")
        assert end(old) == 1
        with run_nsqd(f"--follow={old.http}") as new:
            was_alone = True
            while was_alone:  # in the midst of it, as the copy had no processor for seconds
                until_in_force(old, 1)
                said = old.log().count(ALONE)
                assert publish(old, b"1") == (200, b"OK")
                was_alone = old.log().count(ALONE) > said
            assert end(new) == end(old) >= 2
        until_in_force(old, 0)
        assert ALONE in old.log()
        assert publish(old, b"2") == (200, b"OK")


def test_a_copy_that_keeps_less_than_the_node_does_not_count() -> None:
    with run_nsqd(ACKED, "--durability=fsync") as old, run_nsqd(f"--follow={old.http}") as new:
        until(new, whole=True, error=None)
        assert publish(old, b"0") == (503, "NOT_COPIED")


def test_rocketmq_s_sends_wait_for_the_copy_as_nsq_s_publishes_do() -> None:
    flags = (ACKED, "--replicas-timeout=2s", "--rocketmq-address=127.0.0.1:0")
    with run_nsqd(*flags) as old:
        client = RawClient(rocketmq_port(old))

        def send(topic: str = "t", **fields: str) -> Command:
            return client.ask(
                RequestCode.SEND_MESSAGE, b"x", producerGroup="PG", topic=topic,
                defaultTopic="TBW102", defaultTopicQueueNums=1, queueId=0, sysFlag=0, flag=0,
                bornTimestamp=1, properties=properties.join(fields), reconsumeTimes=0,
            )  # fmt: skip

        for _ in range(3):  # the first by the long way, later ones by the straight one
            refused = send()
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "0 of 1 copies follow" in str(refused.remark)
        assert end(old) == 0
        with run_nsqd(f"--follow={old.http}", *flags) as new:
            until_in_force(old, 1)
            wait_until(lambda: send().code == ResponseCode.SUCCESS, old.log)
            for _ in range(9):
                before = end(new)
                if send().code == ResponseCode.SUCCESS:
                    assert end(new) > before, "the copy has it by now"
            until_copied(old, new, "t")
            os.kill(new.pid, signal.SIGSTOP)
            try:
                seen = end(old)
                late = send()
                assert late.code in (ResponseCode.FLUSH_SLAVE_TIMEOUT,
                                     ResponseCode.SERVICE_NOT_AVAILABLE)  # fmt: skip
                assert end(old) == seen, "nobody sees what is not copied"
            finally:
                os.kill(new.pid, signal.SIGCONT)
            if late.code == ResponseCode.FLUSH_SLAVE_TIMEOUT:
                assert (late.ext or {})["queueOffset"] == str(seen)
                wait_until(lambda: end(old) > seen, old.log)
        client.close()


# --- Another node asked over HTTP, as it is and as it should not be ------------------------------


async def test_a_node_tells_its_role(nsqd: Running) -> None:
    peer = Peer(address_of(nsqd.nsqd.options, nsqd.nsqd.ports), NsqdOptions(), Secret())
    status = await peer.status(TIMEOUT_S)
    assert (status.role, status.epoch) == ("primary", 0)
    with pytest.raises(PeerError, match="refuses: INVALID_BODY") as refused:
        await peer.post("/replication/fetch", b"nothing", TIMEOUT_S)
    assert refused.value.code == "INVALID_BODY"
    await peer.close()


async def test_a_node_that_is_away_is_named() -> None:
    address = unused_address()
    peer = Peer(address, NsqdOptions(), Secret())
    with pytest.raises(PeerError, match=f"{address} cannot be reached"):
        await peer.status(TIMEOUT_S)
    await peer.close()


async def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(PeerError, match="nowhere"):
        Peer("nowhere", NsqdOptions(), Secret())


# --- A port for copies alone, over a node without another one ------------------------------------


SECRET = "a secret of some length"


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[tuple[NsqdOptions, Ports]]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET.replace(" ", "-"))
    options = NsqdOptions(data_path=str(tmp_path / "data"), tcp_address="", http_address="",
                          broadcast_address="127.0.0.1",
                          replication_secret_file=str(secret))  # fmt: skip
    (tmp_path / "data").mkdir()
    node = await open_node(options)
    ports = Ports(options, "127.0.0.1:0")
    primary = Primary.of(node, options, lambda: None)
    replication = await ReplicationPort.open(primary, node, options, ports)
    node.start()
    yield options, ports
    await ports.close()
    await replication.close()
    await node.close()


async def test_it_answers_copies_and_nobody_else(port: tuple[NsqdOptions, Ports]) -> None:
    options, ports = port
    address = address_of(options, ports)
    assert address == f"127.0.0.1:{ports.replication}"
    assert ports.http == 0
    fetch = encode_fetch(Fetch(VERSION, 1, "", 0, "", [], {}, 1))
    stranger, known = (
        Peer(address, options, each)
        for each in (Secret(), Secret.of(options.replication_secret_file))
    )
    try:
        assert (await known.status(30)).role == "primary"
        with pytest.raises(PeerError, match="REPLICATION_SECRET_REQUIRED"):
            await (await stranger.stream("/replication/fetch", fetch, 30)).next(30)
        hello = await (await known.stream("/replication/fetch", fetch, 30)).next(30)
        assert isinstance(next(decode_parts(hello)).head, Hello)
        info = json.loads(await stranger._ask("GET", "/info", b"", 30))
        assert (info["http_port"], info["broadcast_address"]) == (ports.replication, "127.0.0.1")
        stats = json.loads(await stranger._ask("GET", "/stats?format=json", b"", 30))
        assert (stats["health"], stats["topics"]) == ("OK", [])
        assert stats["replication"]["role"] == "primary"
        with pytest.raises(PeerError, match="NOT_FOUND"):
            await known.post("/pub?topic=t", b"x", 30)
    finally:
        await stranger.close()
        await known.close()


@asynccontextmanager
async def answering(said: bytes) -> AsyncIterator[Peer]:
    """A node that says this to a request, and then nothing."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        over.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        peer = Peer(join_host_port(*server.sockets[0].getsockname()), NsqdOptions(), Secret())
        yield peer
        await peer.close()
        await over.wait()


STREAM = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "count", "error"),
    [
        (STREAM, 0, "does not answer"),
        (STREAM + b"\3\0\0\0abc\3\0\0\0de", 1, "does not answer"),
        (STREAM + b"\xff\xff\xff\xff", 0, "a message of 4294967295 bytes"),
        (STREAM + b"\1\0\0\0x" * 9, 9, "sends more than may be on its way"),
        (b"SSH-2.0-x\r\n", 0, "does not speak HTTP"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}", 0, "refuses: 503"),
    ],
)
async def test_answers_that_do_not_come_as_they_should_end_their_stream(
    said: bytes, count: int, error: str
) -> None:
    async with answering(said) as peer:
        stream = await peer.stream("/replication/fetch", b"", TIMEOUT_S)
        for _ in range(count):
            assert len(await stream.next(TIMEOUT_S)) in (1, 3)
        with pytest.raises(PeerError, match=error):
            await stream.next(0.1 if error == "does not answer" else TIMEOUT_S)
        stream.close()


async def test_a_follower_of_another_version_is_told_the_remedy(nsqd: Running) -> None:
    fetch = Fetch(VERSION - 1, 1, "", 0, "", [], {}, 1)
    status, body = await nsqd.post("/replication/fetch", encode_fetch(fetch))
    assert status == 400
    assert "run the same version at both nodes" in json.loads(body)["why"]

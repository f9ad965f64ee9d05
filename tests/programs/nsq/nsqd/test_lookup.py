"""nsqd's side of nsqlookupd, against the real one and against a bad one (NSQ spec 3.9)."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from penstock.broker.topic import Topic
from penstock.core.units import MILLISECOND
from penstock.net import tcp
from penstock.net.http.client.once import get, post
from penstock.net.http.server.service import Handler, HttpServer, Response, Router
from penstock.nsq.nsqd import lookup
from penstock.nsq.nsqd.lookup import Lookup
from penstock.nsq.nsqlookupd.daemon import Nsqlookupd
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Running, Start
from tools.harness.ports import unused_address

Answer = Callable[[bytes], bytes | None]


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Scripted:
    """A nsqlookupd that answers as a test wants; None means not at all."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.connections = 0
        self.info: dict[str, Any] = {}
        self.answer: Answer = self.properly
        self.address = unused_address()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    def properly(self, line: bytes) -> bytes:
        return framed(json.dumps(self.info).encode() if line == b"IDENTIFY" else b"OK")

    async def open(self) -> None:
        host, _, port = self.address.rpartition(":")
        self._server = await asyncio.start_server(self._serve, host, int(port))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            assert await reader.readexactly(4) == b"  V1"
            while line := (await reader.readline()).rstrip(b"\n"):
                if line == b"IDENTIFY":
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    self.identity = json.loads(await reader.readexactly(size))
                self.heard.append(line)
                if (answer := self.answer(line)) is not None:
                    writer.write(answer)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def telling_channels(self, handler: Handler) -> AsyncIterator[None]:
        """Its HTTP port, of which /channels answers."""
        router = Router()
        router.add("GET", "/channels", handler)
        server = HttpServer(router)
        listener = await tcp.listen(server, "127.0.0.1:0", "HTTP")
        self.info = {"broadcast_address": "127.0.0.1", "http_port": listener.port}
        yield
        server.close_connections()
        await listener.close()

    async def close(self) -> None:
        """The program ends: nobody listens, connections are gone."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.01)


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    server = Scripted()
    await server.open()
    yield server
    await server.close()


@pytest.fixture
async def lookupd() -> AsyncIterator[Nsqlookupd]:
    daemon = await Nsqlookupd.start(
        LookupdOptions(
            tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", broadcast_address="127.0.0.1"
        )
    )
    yield daemon
    await daemon.close()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "PING_INTERVAL_S", 0.1)
    monkeypatch.setattr(lookup, "RETRY_S", 0.02)
    for limit in ("_DIAL_TIMEOUT_S", "_REPLY_TIMEOUT_S"):  # but not where an answer is only late
        monkeypatch.setattr(lookup, limit, 2 * TIMEOUT_S)


async def with_lookupd(start: Start, *addresses: str, **changes: Any) -> Running:
    return await start(lookupd_tcp_addresses=addresses, **changes)


async def published_where_channels_are_asked_for(
    start: Start, scripted: Scripted, **changes: Any
) -> tuple[Running, Topic]:
    """An nsqd whose nsqlookupd has told its HTTP port, and a topic that begins then."""
    nsqd = await with_lookupd(start, scripted.address, **changes)
    await nsqd.until(lambda: bool(nsqd.nsqd.lookup.http_addresses()))
    await nsqd.publish("t", b"x")
    return nsqd, nsqd.nsqd.node.broker.topics["t"]


def address(lookupd: Nsqlookupd) -> str:
    return f"127.0.0.1:{lookupd.tcp_port}"


# --- the real one


async def asked(lookupd: Nsqlookupd, path: str) -> Any:
    answer = await get(f"http://127.0.0.1:{lookupd.http_port}{path}", TIMEOUT_S)
    return json.loads(answer.body)


async def test_the_broadcast_ports_are_told(start: Start, lookupd: Nsqlookupd) -> None:
    nsqd = await with_lookupd(
        start, address(lookupd), broadcast_tcp_port=11, broadcast_http_port=12
    )

    async def told() -> bool:
        nodes = (await asked(lookupd, "/nodes"))["producers"]
        return [(node["tcp_port"], node["http_port"]) for node in nodes] == [(11, 12)]

    await nsqd.until(told)


async def test_channels_that_others_have_are_made_before_the_first_message(
    start: Start, lookupd: Nsqlookupd
) -> None:
    nsqd = await with_lookupd(start, address(lookupd))
    await nsqd.until(lambda: bool(nsqd.nsqd.lookup.http_addresses()))
    for name in ("c", "d", "e%23ephemeral"):
        path = f"/channel/create?topic=t&channel={name}"
        await post(f"http://127.0.0.1:{lookupd.http_port}{path}", TIMEOUT_S)
    await nsqd.publish("t", b"first")
    await nsqd.until(lambda: list(nsqd.nsqd.node.broker.topics["t"].channels) == ["c", "d"])
    for name in ("c", "d"):
        await nsqd.until(lambda: not nsqd.nsqd.node.broker.topics["t"].gated)
        assert (await nsqd.channel("t", name))["depth"] == 1


# --- what is said


async def test_the_first_words(start: Start, scripted: Scripted) -> None:
    nsqd = await start()
    await nsqd.publish("t", b"x")
    await nsqd.publish("u", b"x")
    for channel in ("c", "d"):
        await nsqd.post(f"/channel/create?topic=u&channel={channel}")
    nsqd.nsqd.lookup.set_addresses([scripted.address])
    expected = [b"IDENTIFY", b"REGISTER t", b"REGISTER u c", b"REGISTER u d", b"PING"]
    await nsqd.until(lambda: scripted.heard[:5] == expected)
    assert list(scripted.identity) == sorted(scripted.identity)
    assert scripted.identity["http_port"] == nsqd.nsqd.ports.http


async def test_topics_of_other_dialects_stay_untold(start: Start, scripted: Scripted) -> None:
    nsqd = await start()
    nsqd.nsqd.node.registry.topic("%RETRY%before")
    nsqd.nsqd.lookup.set_addresses([scripted.address])
    await nsqd.until(lambda: scripted.heard[:1] == [b"IDENTIFY"])
    topic = nsqd.nsqd.node.registry.topic("%RETRY%after")
    assert not topic.gated
    await nsqd.nsqd.node.registry.delete_topic(topic)
    await nsqd.post("/topic/create?topic=t")
    await nsqd.until(lambda: b"REGISTER t" in scripted.heard)
    assert not [line for line in scripted.heard if b"RETRY" in line]


async def test_creation_and_deletion(start: Start, scripted: Scripted) -> None:
    nsqd = await with_lookupd(start, scripted.address)
    await nsqd.until(lambda: scripted.heard[:1] == [b"IDENTIFY"])
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    await nsqd.post("/channel/pause?topic=t&channel=c")
    await nsqd.post("/channel/delete?topic=t&channel=c")
    await nsqd.post("/topic/delete?topic=t")
    expected = [b"REGISTER t", b"REGISTER t c", b"UNREGISTER t c", b"UNREGISTER t"]
    await nsqd.until(lambda: [line for line in scripted.heard[1:] if line != b"PING"] == expected)


async def test_a_busy_node_says_all_the_same_that_it_lives(
    start: Start, scripted: Scripted
) -> None:
    nsqd = await with_lookupd(start, scripted.address)

    def and_the_next_waits_already(line: bytes) -> bytes:
        if line.startswith(b"REGISTER"):
            nsqd.nsqd.lookup.register("t", "another#ephemeral")
        return scripted.properly(line)

    await nsqd.until(lambda: scripted.heard[:1] == [b"IDENTIFY"])
    scripted.answer = and_the_next_waits_already
    nsqd.nsqd.lookup.register("t")
    nsqd.nsqd.lookup.register("t", "c")  # so that there is always one more
    seen = len(scripted.heard)
    await nsqd.until(lambda: scripted.heard[seen:].count(b"PING") > 1)
    scripted.answer = scripted.properly


# --- trouble


async def test_after_a_loss_everything_is_registered_again(
    start: Start, scripted: Scripted
) -> None:
    nsqd = await with_lookupd(start, scripted.address)
    await nsqd.publish("t", b"x")
    await nsqd.until(lambda: b"REGISTER t" in scripted.heard)
    await scripted.close()
    await nsqd.publish("u", b"x")
    scripted.heard.clear()
    await scripted.open()
    await nsqd.until(lambda: {b"IDENTIFY", b"REGISTER t", b"REGISTER u"} <= set(scripted.heard))


async def test_a_dead_one_delays_nobody(start: Start, scripted: Scripted) -> None:
    dead = Scripted()
    await dead.open()
    await dead.close()
    nsqd = await with_lookupd(start, dead.address, scripted.address)
    consumer = await nsqd.consumer("t")
    await nsqd.publish("t", b"x")
    assert (await consumer.message()).body == b"x"
    await nsqd.until(lambda: b"REGISTER t c" in scripted.heard)


async def test_a_mute_one_delays_nobody_and_is_left(
    start: Start, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_REPLY_TIMEOUT_S", 1.0)
    mute = Scripted()
    mute.answer = lambda line: None
    await mute.open()
    nsqd = await with_lookupd(start, mute.address, scripted.address)
    await nsqd.publish("t", b"x")
    await nsqd.until(lambda: b"REGISTER t" in scripted.heard)
    await nsqd.until(lambda: mute.connections > 1)
    assert set(mute.heard) == {b"IDENTIFY"}
    await mute.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">i", 1 << 30),
        framed(b"E_INVALID"),
        framed(b"not json"),
        framed(b"[" * 50_000),
        framed(b'{"broadcast_address":5,"http_port":"x"}'),
        framed(b'{"broadcast_address":"127.0.0.1","http_port":99999999}'),
        framed(b'{"broadcast_address":"bad host","http_port":80}'),
        framed(b"[]"),
    ],
)
async def test_nonsense_harms_nobody(start: Start, scripted: Scripted, answer: bytes) -> None:
    scripted.answer = lambda line: answer if line == b"IDENTIFY" else framed(b"OK")
    nsqd = await with_lookupd(start, scripted.address)
    await nsqd.until(lambda: bool(scripted.heard))
    await asyncio.sleep(0.02)
    consumer = await nsqd.consumer("t")
    await nsqd.publish("t", b"x")
    assert (await consumer.message()).body == b"x"
    (peer,) = nsqd.nsqd.lookup.peers.values()
    assert not peer._task.done()


async def test_an_error_answer_is_logged(
    start: Start, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.answer = lambda line: framed(b"E_BAD_TOPIC no" if line != b"IDENTIFY" else b"{}")
    nsqd = await with_lookupd(start, scripted.address)
    await nsqd.publish("t", b"x")
    await nsqd.until(lambda: f"LOOKUPD({scripted.address}): E_BAD_TOPIC no" in caplog.text)


@pytest.mark.parametrize("wrong", ["nowhere", "127.0.0.1:x", "127.0.0.1:99999", ""])
async def test_a_wrong_address_is_only_logged(
    start: Start, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    nsqd = await with_lookupd(start, wrong)
    await nsqd.publish("t", b"x")
    await nsqd.until(lambda: f"LOOKUPD({wrong})" in caplog.text)
    assert not nsqd.nsqd.lookup.peers[wrong]._task.done()


async def test_too_many_waiting_commands_start_it_anew(
    start: Start, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_QUEUE_MAX", 5)
    nsqd = await with_lookupd(start, scripted.address)
    await nsqd.until(lambda: scripted.heard[:1] == [b"IDENTIFY"])
    for number in range(50):
        nsqd.nsqd.node.registry.topic(f"t{number}")
    expected = {b"REGISTER t%d" % number for number in range(50)}
    await nsqd.until(lambda: expected <= set(scripted.heard))


# --- channels to pre-create


@pytest.mark.parametrize(
    ("status", "body", "channels"),
    [
        (200, b'{"channels":["a","b c","x#ephemeral",5,"d"]}', ["a", "d"]),
        (200, b'{"channels":null}', []),
        (200, b'{"channels":7}', []),
        (200, b"nonsense", []),
        (404, b'{"channels":["a"]}', []),
        (500, b"", []),
    ],
)
async def test_what_a_lookupd_says_of_channels(
    start: Start, scripted: Scripted, status: int, body: bytes, channels: list[str]
) -> None:
    async with scripted.telling_channels(lambda request: Response(status, body)):
        nsqd, topic = await published_where_channels_are_asked_for(start, scripted)
        await nsqd.until(lambda: not topic.gated)
        assert list(topic.channels) == channels


async def test_without_a_time_out_they_are_asked_all_the_same(
    start: Start, scripted: Scripted
) -> None:
    async with scripted.telling_channels(lambda request: Response(200, b'{"channels":["a"]}')):
        nsqd, topic = await published_where_channels_are_asked_for(
            start, scripted, http_client_request_timeout=0
        )
        await nsqd.until(lambda: not topic.gated)
        assert list(topic.channels) == ["a"]


async def test_a_slow_answer_holds_back_delivery_not_publishing(
    start: Start, scripted: Scripted
) -> None:
    never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    async with scripted.telling_channels(lambda request: never):
        nsqd, held = await published_where_channels_are_asked_for(start, scripted)
        consumer = await nsqd.consumer("t")
        assert held.gated
        assert await consumer.silent(0.05)
        nsqd.nsqd.lookup._timeout_s = 0.1
        consumer = await nsqd.consumer("u")
        await nsqd.publish("u", b"x")
        assert (await consumer.message()).body == b"x"
        never.cancel()


async def test_connecting_has_a_limit_of_its_own(
    start: Start, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as full, ExitStack() as others:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # room for one connection that nobody accepts
        for _ in range(9):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        scripted.info = {"broadcast_address": "127.0.0.1", "http_port": full.getsockname()[1]}
        nsqd, topic = await published_where_channels_are_asked_for(
            start, scripted, http_client_connect_timeout=50 * MILLISECOND
        )
        await nsqd.until(lambda: not topic.gated)
    assert "pre-create - GET" in caplog.text
    assert "connecting timed out" in caplog.text


async def test_a_topic_that_is_deleted_while_others_are_asked(
    start: Start, scripted: Scripted
) -> None:
    answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    async with scripted.telling_channels(lambda request: answer):
        nsqd, topic = await published_where_channels_are_asked_for(start, scripted)
        assert (await nsqd.post("/topic/delete?topic=t"))[0] == 200
        answer.set_result(Response(200, b'{"channels":["c"]}'))
        await nsqd.until(lambda: not topic.gated)
        assert topic.channels == {}
        assert b"REGISTER t c" not in scripted.heard


async def test_no_lookupd_to_ask_is_told(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    nsqd = await with_lookupd(start, "127.0.0.1:1")
    await nsqd.publish("t", b"x")
    text = "no available nsqlookupd to query for channels to pre-create for topic t"
    await nsqd.until(lambda: text in caplog.text)


async def test_without_lookupds_nothing_is_asked() -> None:
    assert await Lookup(bytes, list, 100, 10**9, 10**9).channels("t") == []

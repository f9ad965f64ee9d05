"""Whatever clients send, cut anywhere, compiled code and the parser come to the same.

Two nsqds get the same bytes in the same passes of the loop, one with plain publishes taken by
compiled code and one without: their answers, messages, logs, counts and connections are compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import lane
from penstock.broker.progress import TopicSettings
from penstock.nsq.nsqd.daemon import Nsqd
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.tcp.connection import Connection
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.storage.durability import Durability
from penstock.testing.clock import FakeClock
from tests import nsqds

pytestmark = pytest.mark.skipif(lane.COMPILED is None, reason=f"compiled lane: {lane.STATE}")

MSG_MAX, BODY_MAX = 60, 500
TOPICS = (b"a", b"b", b"late", b"limited", b"e#ephemeral", b"bad name", b"x" * 65)


def pub(topic: bytes, body: bytes) -> bytes:
    return b"PUB %b\n%b%b" % (topic, struct.pack(">i", len(body)), body)


def mpub(topic: bytes, bodies: list[bytes]) -> bytes:
    sized = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    return b"MPUB %b\n%b%b" % (topic, struct.pack(">ii", len(sized) + 4, len(bodies)), sized)


topics = st.sampled_from(TOPICS[:2] * 4 + TOPICS)
bodies = st.binary(min_size=1, max_size=20) | st.just(b"even") | st.binary(max_size=MSG_MAX + 1)
plain = st.builds(pub, topics, bodies) | st.builds(mpub, topics, st.lists(bodies, max_size=8))
others = st.sampled_from(
    [
        b"NOP\n",
        b"SUB a c\n",
        b"RDY 3\n",
        b"RDY 0\n",
        b"FIN 0123456789abcdef\n",
        b"CLS\n",
        b"PUB\n",
        b"PUB a \n\0\0\0\1x",
        b"PUB a\r\n\0\0\0\1x",
        b"DPUB a 100\n\0\0\0\2hi",
        b"MPUB a\n\0\0\0\5\0\0\0\0x",
        b"MPUB a\n\0\0\0\1\0\0\0\1\0\0\0\1x",
        b"PUB a\n\xff\xff\xff\xffx",
        b'IDENTIFY\n\0\0\0\x1c{"feature_negotiation":false}',
        b"nonsense\n",
    ]
)
commands = st.lists(plain | plain | plain | others, min_size=1, max_size=12).map(b"".join)


def post(target: str, body: bytes, more: str = "") -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


targets = st.sampled_from(
    ["/pub?topic=a"] * 6
    + ["/pub?topic=b", "/pub?topic=limited", "/pub?topic=e%23ephemeral", "/pub?topic=new"]
    + ["/pub?topic=a&defer=5", "/pub?topic=bad%20name", "/pub", "/mpub?topic=a", "/nowhere"]
)
posts = st.builds(post, targets, st.sampled_from([b"four"] * 4 + [b"", b"a\nb\n", b"x" * 61]))
odd = st.sampled_from(
    [
        b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /pub?topic=a HTTP/1.0\r\nContent-Length: 4\r\n\r\nfour",
        post("/pub?topic=a", b"four", "Connection: close\r\n"),
        b"nonsense\r\n\r\n",
    ]
)
requests = st.lists(posts | posts | posts | odd, min_size=1, max_size=12).map(b"".join)
cuts = st.lists(st.integers(0, 400), max_size=6)
"""Where the bytes of a connection are cut into reads."""
streams = st.lists(
    st.tuples(commands.map(b"  V2".__add__) | requests, cuts), min_size=1, max_size=4
)
turns = st.lists(st.integers(0, 3), max_size=12)
"""Which connection reads next; every third read ends a pass of the loop."""


@dataclass
class Wire(asyncio.Transport):
    """The transport of a connection whose client reads all."""

    written: bytearray = field(default_factory=bytearray)
    closed: bool = False

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, pieces: Any) -> None:
        self.written += b"".join(pieces)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    abort = close


@dataclass
class Client:
    """A client of NSQ's protocol, or of HTTP."""

    wire: Wire
    connection: Any

    @classmethod
    def of(cls, nsqd: Nsqd, stream: bytes) -> Client:
        is_nsq = stream.startswith(b"  V2")
        wire, connection = Wire(), nsqd._connection() if is_nsq else nsqd._http()
        connection.connection_made(wire)
        return cls(wire, connection)

    def frames(self) -> tuple[Any, list[Any]]:
        """Answers, and messages; which of the two comes first depends on the passes."""
        if not isinstance(self.connection, Connection):
            return bytes(self.wire.written), []
        reader = FrameReader()
        reader.receive_data(bytes(self.wire.written))
        answers: list[Any] = []
        messages: list[Any] = []
        for frame in reader.events():
            if isinstance(frame, MessageBlock):
                messages += [(m.id, m.attempts, m.timestamp_ns, bytes(m.body)) for m in frame]
            else:
                answers.append(frame)
        return answers, messages


async def story(
    reads: list[tuple[int, bytes]],
    streams: list[tuple[bytes, list[int]]],
    durability: Durability,
    *,
    compiled: bool,
) -> dict[str, Any]:
    """What becomes of these reads of the streams' connections."""
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(lane, "publisher", lambda *_: None)
        options = NsqdOptions(
            tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=path, node_id=7,
            broadcast_address="127.0.0.1", max_msg_size=MSG_MAX, max_body_size=BODY_MAX,
            durability=durability,
        )  # fmt: skip
        clock = FakeClock()
        nsqd = await nsqds.start(options, clock)
        try:
            registry = nsqd.node.registry
            for name in ("a", "b", "limited", "e#ephemeral"):
                registry.channel(registry.topic(name), "c")
            limited = registry.topic("limited")
            limited.configure(TopicSettings(max_depth=3))
            clients = [Client.of(nsqd, stream) for stream, _ in streams]
            for number, (who, data) in enumerate(reads):
                client = clients[who]
                if not client.wire.closed:
                    client.connection.data_received(data)
                if number % 3 == 2:
                    await asyncio.sleep(0)
                    if durability is Durability.FSYNC:  # a sync takes as long as it takes
                        await nsqd.node.commits.answer()
            await nsqd.node.commits.answer()
            await asyncio.sleep(0.001)
            topics = nsqd.node.broker.topics
            found = {
                "answers": [each.frames()[0] for each in clients],
                "messages": [each.frames()[1] for each in clients],
                "closed": [each.wire.closed for each in clients],
                "counts": [getattr(each.connection, "pub_counts", None) for each in clients],
                "owed": [each.connection.owed for each in clients],
                "logs": {
                    name: b"".join(bytes(b.frames) for b in topic.log.batches_at(0)[0])
                    for name, topic in topics.items()
                },
                "figures": {
                    name: (topic.message_count, topic.message_bytes, topic.depth, topic.head,
                           topic.refused_count, topic.dropped_count,
                           [(c.message_count, c.state.depth, c.state.in_flight_count)
                            for c in topic.channels.values()])
                    for name, topic in topics.items()
                },
            }  # fmt: skip
            for each in clients:
                each.connection.connection_lost(None)
            return found
        finally:
            with contextlib.suppress(Exception):
                await nsqds.stop(nsqd)


def cut(streams: list[tuple[bytes, list[int]]], turns: list[int]) -> list[tuple[int, bytes]]:
    """The reads of all streams, in an order."""
    pieces = []
    for data, places in streams:
        ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
        pieces.append([data[a:b] for a, b in itertools.pairwise(ends)])
    reads = []
    for who in [*turns, *range(len(pieces))]:
        mine = pieces[who % len(pieces)]
        if mine:
            reads.append((who % len(pieces), mine.pop(0)))
    for who, mine in enumerate(pieces):
        reads += [(who, piece) for piece in mine]
    return reads


@pytest.mark.parametrize("durability", [Durability.WRITE, Durability.FSYNC, Durability.MEMORY])
@given(streams=streams, turns=turns)
@settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_both_ways_come_to_the_same(
    durability: Durability, streams: list[tuple[bytes, list[int]]], turns: list[int]
) -> None:
    reads = cut(streams, turns)

    async def both() -> list[dict[str, Any]]:
        return [
            await story(reads, streams, durability, compiled=compiled) for compiled in (True, False)
        ]

    fast, plain = asyncio.run(both())
    for what, value in plain.items():
        assert fast[what] == value, what


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Nsqd]:
    """An nsqd with compiled code, in the test's loop."""
    with tempfile.TemporaryDirectory() as path:
        address = "127.0.0.1:0"
        given = NsqdOptions(tcp_address=address, http_address=address, data_path=path, node_id=7)
        nsqd = await nsqds.start(given)
        try:
            yield nsqd
        finally:
            await nsqds.stop(nsqd)


async def test_a_pass_of_many_producers_is_one_batch() -> None:
    """Compiled code is what runs: otherwise the comparison above would compare nothing."""
    async with running() as nsqd:
        topic = nsqd.node.registry.topic("a")
        clients = [Client.of(nsqd, b"  V2") for _ in range(50)]
        for client in clients:
            client.connection.data_received(b"  V2")
            client.connection.data_received(pub(b"a", b"x") + mpub(b"a", [b"y", b"zz"]))
        assert len(topic.staged) == 1
        await asyncio.sleep(0.01)
        assert all(len(each.frames()[0]) == 2 for each in clients)
        assert len(topic.log.batches_at(0)[0]) == 1


async def test_an_answer_to_a_post_does_not_overtake_that_of_another_topic() -> None:
    async with running() as nsqd:
        topic = nsqd.node.registry.topic("a")
        nsqd.node.registry.topic("b")
        client, other = Client.of(nsqd, b""), Client.of(nsqd, b"  V2")
        for target in ("/pub?topic=a", "/pub?topic=b"):  # their heads are known from now on
            client.connection.data_received(post(target, b"four"))
            await asyncio.sleep(0.01)
        nsqd.node.commits.occupy(topic)
        before = len(client.wire.written)
        client.connection.data_received(
            post("/pub?topic=a", b"four") + post("/pub?topic=b", b"four")
        )
        await asyncio.sleep(0.01)
        written_early = len(client.wire.written) - before
        other.connection.data_received(b"  V2" + pub(b"a", b"joins"))
        other.connection.data_received(pub(b"a", b"joins") + pub(b"b", b"x"))
        await asyncio.sleep(0.01)
        nsqd.node.commits.vacate(topic)
        await asyncio.sleep(0.01)
        assert not written_early
        assert client.wire.written[before:].count(b"200 OK") == 2
        assert len(other.frames()[0]) == 3
        other.connection.data_received(pub(b"b", b"y"))
        await asyncio.sleep(0.01)
        assert len(other.frames()[0]) == 4

"""What compiled code takes of a connection's bytes, against the parser alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock import lane
from penstock.nsq.protocol import encode as nsq
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Drop, Failure, Publish
from penstock.nsq.protocol.frames import OK_FRAME
from penstock.nsq.protocol.params import parse_name
from penstock.rocketmq.broker.send.send_header import SendHeader
from penstock.rocketmq.broker.send.sending import Sends
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, with_more
from penstock.rocketmq.broker.store.stored_records import StoredRecord
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.frames import FrameReader
from penstock.rocketmq.protocol.ids import Host, host_bytes, host_digits
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.message import decode_all, encode, topic_part
from tools.fuzz.streams import same_however_cut
from tools.fuzz.targets import commands
from tools.fuzz.targets.commands import LIMITS
from tools.harness.naive_nsq import plain

from . import Target

Found = tuple[dict[str, list[bytes]], list[tuple[Any, ...]]]
"""Bodies by topic, and all other events."""


@dataclass
class _Topic:
    name: str
    staged: list[Any] = field(default_factory=list)
    joins: bool = True
    spread: int = 1
    exiting: bool = False


@dataclass
class _Node:
    """Commits at once, and notes what that was."""

    bodies: dict[str, list[bytes]]

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def publish(
        self, topic: _Topic, records: Any, delay: int, done: Callable[..., None], queue: int
    ) -> None:
        frames, positions = records.encode(1 << 60, 1)
        bodies = records.to_list()
        assert (positions is None) == (len(set(map(len, bodies))) == 1)
        assert len(frames) == sum(map(len, bodies)) + 34 * records.count
        self.bodies.setdefault(topic.name, []).extend(bodies)
        done(None)

    def joined(self) -> None:
        raise AssertionError("nothing stays staged here")


class _Connection(lane.Commands):
    """A connection whose session takes all, and does nothing else."""

    held = 0

    def __init__(self, found: Found) -> None:
        self.found = found
        self.reader = CommandReader(LIMITS, expect_magic=True)
        self.phase, self.blocked_since, self.turn = "handling", None, self
        self.owed = self.told = self.oks = 0
        self.early: dict[int, Any] = {}
        self.behind: list[bytes] = []
        self.pub_counts: dict[str, int] = {}
        self.session = self.outbox = self
        self.is_at_end = self.is_over = False

    def count(self, topic: str, messages: int) -> None:
        self.pub_counts[topic] = messages

    def answer(self, frames: bytes, more_owed: bool) -> None:
        self.oks += frames.count(OK_FRAME)

    def published(self, command: str, turn: int, failure: object, count: int) -> None:
        """Answer in turn, as a session does: those of another topic may come too early."""
        assert failure is None
        self.early[turn] = count
        while (count := self.early.pop(self.told + 1, 0)) > 0:
            self.told += count
            self.owed -= count
            self.answer(OK_FRAME * count, self.owed > 0)

    def parse(self, data: bytes) -> None:
        bodies, others = self.found
        self.reader.receive_data(data)
        while not self.is_over and (event := self.reader.next_event()) is not None:
            if isinstance(event, Publish) and not event.delay_ns:
                bodies.setdefault(event.topic, []).extend(event.bodies.to_list())
            else:
                others += plain(event)
            if isinstance(event, Drop) or (isinstance(event, Failure) and event.fatal):
                self.is_over, self.phase = True, "ended"


def lane_commands(data: bytes) -> None:
    """The stream of one connection: what is published, and what else is found, either way."""
    if lane.COMPILED is not None:
        assert _taken(data, compiled=True) == _taken(data, compiled=False)


def _taken(data: bytes, *, compiled: bool) -> Found:
    def read(pieces: Any) -> Found:
        found: Found = ({}, [])
        connection = _Connection(found)
        if compiled:
            names = ("t", "u", "t#ephemeral")
            way = lane.publisher(_Node(found[0]), {name: _Topic(name) for name in names})
            connection.take_plain(way, "handling", OK_FRAME, parse_name, int, LIMITS)
        for piece in pieces:
            if not connection.is_over:
                connection.data_received(piece)
        assert connection.owed == 0
        assert connection.oks == connection.told
        return found

    return same_however_cut(data, read)


# --- RocketMQ's sends -----------------------------------------------------------------------------

_HOST, _BASE, _STAMP_NS = Host(bytes((10, 0, 0, 1)), 10911), 1 << 40, 1_700_000_000_123_456_789
_QUEUES = 4
_NOTHING: Any = None
_SENDS = Sends(*[_NOTHING] * 10, cluster_property="CLUSTER\x01c", clock=_NOTHING, chance=_NOTHING)


class _Settings:
    max_message_size = 4096


class _Plain:
    """A broker with one topic, which stores at once."""

    settings = _Settings
    stats = topics = version = property(lambda self: self)
    counter = 1
    cluster_property = _SENDS.cluster_property
    store_host, id_digits = host_bytes(_HOST), host_digits(_HOST).encode()
    serializations = (0, 1)
    answers = ((b"[", b"", b"ids", b"queue", b"offset", b"]"),) * 2
    shared_text = staticmethod(_SENDS.shared_text)

    def __init__(self) -> None:
        self.topic = _Topic("T")
        self.stored: list[bytes] = []
        self.offsets = [0] * _QUEUES
        self.ids = 0

    def route(self, name: bytes) -> Any:
        return (self.topic, topic_part(b"T"), _BASE, _QUEUES) if name == b"T" else None

    def put_begins(self) -> int:
        return 0

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def publish(
        self, topic: object, records: Any, delay: int, done: Callable[..., None], queue: int
    ) -> None:
        records.queue_offset = self.offsets[queue]
        frames, _ = records.encode(self.ids, _STAMP_NS)
        self.offsets[queue] += records.count
        self.ids += records.count
        self.stored += map(encode, decode_all(frames))
        done(None)


class _Remoting(lane.Sends):
    """A connection whose bytes beyond plain sends nobody reads."""

    unread = 0
    is_congested = is_reading = flushes_soon = False

    def __init__(self) -> None:
        self.has_begun = True
        self.reader = self.transport = self
        self.left: list[object] = []
        self.outgoing: list[bytes] = []
        self.rest = b""

    def is_closing(self) -> bool:
        return False

    def parse(self, data: bytes) -> None:
        self.rest = data

    def flush(self) -> None:
        assert sum(map(len, self.outgoing)) > 0

    flush_soon = flush


def lane_sends(data: bytes) -> None:
    """What compiled code stores of a read is what Python stores of the same requests."""
    if lane.COMPILED is None:
        return
    broker, connection = _Plain(), _Remoting()
    connection.take_plain(lane.publisher(broker, {}), broker, host_bytes(_HOST))
    connection.data_received(data)
    taken = data[: len(data) - len(connection.rest)]
    reader = FrameReader()
    by_queue: dict[int, list[tuple[SendHeader, bytes]]] = {}
    reader.feed(taken)
    while (command := reader.next_command()) is not None:
        header = SendHeader.of(command)
        header.check()
        assert header.topic == "T"
        by_queue.setdefault(header.queue, []).append((header, command.body))
    assert not reader.unread
    expected = _Plain()
    for queue, sends in by_queue.items():
        for header, body in sends:
            expected.publish(None, _records(header, body), 0, lambda _: None, queue)
    assert broker.stored == expected.stored


def _records(header: SendHeader, body: bytes) -> Any:
    draft = Draft("T", header.queue, body, "", header.flag, header.sys_flag, header.born_ms, _HOST,
                  header.reconsume_times)  # fmt: skip
    if header.batch:
        shared = _SENDS.shared_text(header.properties).encode()
        messages = with_more(batch_body.parts(body), shared)
        assert messages is not None
        return MixedBatch(messages, draft, _HOST, _BASE)
    draft.properties = _SENDS._stored_text(header.properties)
    return StoredRecord(draft, _HOST, _BASE)


def _sent(number: int, kind: Serialization, *, batch: bool = False) -> bytes:
    ext = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": str(number % _QUEUES), "f": "0",
           "g": str(1_700_000_000_000 + number), "h": "0", "i": "UNIQ_KEY\x017F\x02WAIT\x01true",
           "j": "0", "k": "false", "m": str(batch).lower()}  # fmt: skip
    one = batch_body.BatchedMessage(b"body", "KEYS\x01k", 1)
    body = batch_body.encode([one, one._replace(body=b"another")]) if batch else b"body"
    return frames.encode(Command(310, number, ext, body, version=401, serialization=kind))


_SERIES = [
    b"".join(_sent(number, kind, batch=number % 3 == 2) for number in range(6))
    for kind in Serialization
]

_STREAMS = [
    nsq.publish("t", b"body") * 3 + nsq.publish("u", b"other") + nsq.publish("t", b"x"),
    nsq.multi_publish("u", [b"one", b"two"] * 8) + nsq.NOP + nsq.publish("t", b"y"),
    nsq.multi_publish("t", [b"a", b"bb", b"ccc"] * 8) + b"PUB t\r\n\0\0\0\1z",
    nsq.publish("unknown", b"body") + nsq.publish("t", b"b" * 64) + b"PUB t \n\0\0\0\1z",
    nsq.publish("t", b"b" * 65) + nsq.publish("t", b"behind it"),
]

TARGETS = {
    "lane_commands": Target(
        lane_commands,
        [nsq.MAGIC_V2 + stream for stream in _STREAMS],
        [*commands.TARGETS["commands"].words, b"PUB u\n", b"MPUB u\n", b"\0\0\0\x0a"],
    ),
    "lane_sends": Target(
        lane_sends,
        _SERIES,
        [
            b"WAIT\x01",
            b"\\u0001",
            b"\\u0002",
            b"POP_CK\x01",
            b'"m":"true"',
            b"CLUSTER\x01",
            b"\0\0\0\1",
        ],
    ),
}

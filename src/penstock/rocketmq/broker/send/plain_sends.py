"""The fast path of a send: from its bytes to its answer, without parser, header or draft.

Most sends store one message in a topic that is there. Their heads are known by their pattern
(``send_pattern``) from earlier sends of the connection, so what is left is to cut out what differs,
to pack the message where its place in the log is known, and to answer. What comes of it is what
``sending`` makes of the same bytes.

It leaves out, and leaves to ``sending``: batches; topics that are not there yet, that are the
broker's own or a group's, or ordered; delays, transactions, properties that are the broker's; sends
that want no answer, or a queue chosen for them; long messages; the check of access rules; waiting
for a slave, or for a sync with a limit of time; a slave's refusal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, Final

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.send import sending
from penstock.rocketmq.broker.send.send_pattern import PlainHead, SendPattern
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.frames import HEADER_BITS, HEADER_MAX
from penstock.rocketmq.protocol.ids import host_digits
from penstock.rocketmq.protocol.messages.message import Packer
from penstock.storage.batch import Dialect
from penstock.storage.queues.one_queue import OneQueue

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.core.errors import StorageError
    from penstock.node.commits import Commits
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.send.sending import Sends
    from penstock.rocketmq.remoting import Connection
    from penstock.storage.batch import Buffer, Positions

FRAME_MAX: Final = 64 * 1024
"""Longer ones take the long way."""
WAYS_MAX: Final = 8
"""Patterns that are known of one connection."""
UNSEEN_MAX: Final = 3
"""Sends behind a connection's first that leave no pattern: to make one costs as much as twenty."""
TRIES_MAX: Final = 64
"""A client whose sends are always others takes the long way from then on."""
_LENGTHS = struct.Struct(">iI")
_lengths = _LENGTHS.unpack_from


class PlainSends:
    """The plain sends of one connection, from its first send on."""

    __slots__ = ("_last", "_tries", "_ways", "cluster_property", "commits", "connection",
                 "settings", "stats", "store", "topics")  # fmt: skip

    def __init__(self, sends: Sends, commits: Commits, connection: Connection) -> None:
        """``sends`` are those of the long way, whose parts these use."""
        self.settings = sends.settings
        self.topics = sends.topics
        self.store = sends.store
        self.stats = sends.stats
        self.cluster_property = sends.cluster_property
        self.commits = commits
        self.connection = connection
        self._ways: list[_Route] = []
        self._last: _Route | None = None
        self._tries = 0

    @staticmethod
    def are_served(sends: Sends, acl: Acl | None) -> bool:
        """True if a broker with these settings may have any."""
        if sends.settings.is_slave or sends.slave_acks is not None:
            return False
        return acl is None and sends.flush_timeouts is None

    def take_lone(self, data: bytes) -> bool:
        """Store a plain send that is all that was read and answer it, while there is nobody to
        share a write with; False if it must go another way.
        """
        way, commits = self._last, self.commits
        if way is None or not commits.is_idle or len(data) < _LENGTHS.size:
            return False
        length, second = _lengths(data)
        body_at = _LENGTHS.size + (second & HEADER_MAX)
        if length + 4 != len(data) or not self._has_room_for(length, body_at - 4):
            return False
        head = way.pattern.read(second >> HEADER_BITS, data, _LENGTHS.size, body_at)
        if head is None or not way.leads_to(head.queue):
            return False
        record = PlainSend(self, way, head, data[body_at:])
        commits.publish(way.topic, record, 0, record.done_now, head.queue)
        return True

    def take(self, data: bytes) -> int:
        """Publish the plain sends at the start of what was read; how many bytes they have."""
        place, size = 0, len(data)
        # The fifth byte is the serialisation (RocketMQ spec 1.1).
        if size <= _LENGTHS.size or not SendPattern.is_send(data[4], data, _LENGTHS.size):
            return 0  # as most reads of a consumer
        while place + _LENGTHS.size < size:
            length, second = _lengths(data, place)
            start, end = place + _LENGTHS.size, place + 4 + length
            body_at = start + (second & HEADER_MAX)
            if end > size or not self._has_room_for(length, body_at - place - 4):
                break
            way = self._last
            kind = second >> HEADER_BITS
            head = None if way is None else way.pattern.read(kind, data, start, body_at)
            if head is None:
                way, head = self._found(kind, data, start, body_at)
            if way is None or head is None or not way.leads_to(head.queue):
                break
            record = PlainSend(self, way, head, data[body_at:end])
            self.commits.publish(way.topic, record, 0, record.done, head.queue)
            place = end
        return place

    def _has_room_for(self, length: int, head_length: int) -> bool:
        """True if a frame may be a plain send; ``head_length`` is its length without the body."""
        body = length - head_length
        return 0 <= body <= self.settings.max_message_size and length <= FRAME_MAX

    def _found(
        self, kind: int, data: bytes, start: int, end: int
    ) -> tuple[_Route | None, PlainHead | None]:
        """The head at ``[start, end)`` by another pattern than the last; if none is like it, it
        makes one for those who come after.
        """
        for way in self._ways:
            head = way.pattern.read(kind, data, start, end)
            if head is not None:
                self._last = way
                self.connection.serialization = way.pattern.kind
                return way, head
        if SendPattern.is_send(kind, data, start) and self._tries < TRIES_MAX:
            self._tries += 1
            if self._tries > UNSEEN_MAX:
                self._learn(kind, data[start:end])
        return None, None

    def _learn(self, kind: int, header: bytes) -> None:
        pattern = SendPattern.of(kind, header, self.cluster_property)
        if pattern is not None:
            self._ways.insert(0, _Route(pattern, self))
            del self._ways[WAYS_MAX:]


class _Route:
    """The way of the sends of one pattern, as long as the table of topics stays as it is."""

    __slots__ = ("_queues", "_sends", "_version", "base", "id_digits", "packer", "pattern", "topic")

    topic: Topic

    def __init__(self, pattern: SendPattern, sends: PlainSends) -> None:
        header, address = pattern.header, sends.store.address
        self._sends = sends
        self.pattern = pattern
        self.packer = Packer(
            header.topic,
            sends.connection.host,
            address,
            header.flag,
            header.sys_flag,
            header.reconsume_times,
        )
        self.id_digits = host_digits(address)
        self.base = 0
        self._version = -1
        self._queues = 0

    def leads_to(self, queue: int) -> bool:
        """True if a message for this queue may be published to ``topic`` now, without more ado."""
        if self._version != self._sends.topics.version.counter or self.topic.exiting:
            self._look()
        return queue < self._queues

    def _look(self) -> None:
        """Find the topic; until it is there and plain, no queue is of it."""
        # No table has this version: as long as the topic is not plain, each send looks again.
        self._version, self._queues = -1, 0
        name, topics, store = self.pattern.header.topic, self._sends.topics, self._sends.store
        config, topic = topics.get(name), store.topics.get(name)
        if config is None or topic is None or config.order or topic.exiting:
            return
        if name in names.NOT_FOR_CLIENTS or names.is_inner(name) or not store.has(name):
            return
        self.topic, self.base = topic, store.base(name)
        self._version = topics.version.counter
        # For a higher queue the log has to be split first, which the long way does (put_records).
        is_one = isinstance(topic.queues, OneQueue)
        self._queues = 1 if is_one else max(config.read_queues, config.write_queues)


class PlainSend:
    """A message as it was sent, as a record of its topic; and the answer to its producer."""

    __slots__ = ("_began_ns", "_body", "_head", "_sends", "_way", "nbytes", "opaque",
                 "physical_offset", "queue_offset", "serialization", "stride")  # fmt: skip

    dialect: ClassVar[int] = Dialect.ROCKETMQ
    note: ClassVar[bytes] = b""
    count: ClassVar[int] = 1

    def __init__(self, sends: PlainSends, way: _Route, head: PlainHead, body: bytes) -> None:
        self._sends = sends
        self._way = way
        self._head = head
        self._body = body
        self._began_ns = sends.stats.put_begins()
        self.opaque = head.opaque
        self.serialization = way.pattern.kind
        """The answer takes this and ``opaque`` from the request."""
        self.nbytes = len(body)
        self.stride = way.packer.fixed_bytes + len(body) + len(head.properties)
        self.queue_offset = 0
        self.physical_offset = 0

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[Buffer, Positions | None]:
        """The stored message."""
        head, way = self._head, self._way
        self.physical_offset = physical = way.base + first_id
        return way.packer.pack(
            self._body,
            head.properties,
            head.queue,
            self.queue_offset,
            physical,
            head.born_ms,
            timestamp_ns // MILLISECOND,
        ), None

    def done(self, error: StorageError | None) -> None:
        """Tell the producer that the message is stored, or is not."""
        self._sends.connection.send_pieces((self.answer(error),))

    def done_now(self, error: StorageError | None) -> None:
        """Tell a producer that nobody else shares the pass with."""
        self._sends.connection.send_now(self.answer(error))

    def answer(self, error: StorageError | None) -> bytes:
        """The answer when it is stored, or is not."""
        sends, head, code = self._sends, self._head, ResponseCode.SUCCESS
        if error is not None:
            code = sending.error_code(error)
            if code not in sending.STORED:
                sends.stats.put_failed()
                request = Command(0, head.opaque, serialization=self.serialization)
                return frames.encode(sending.storage_failure(request, code, error))
        if self._began_ns:
            sends.stats.put_ends(self._way.topic.name, head.queue, self._began_ns)
        message_id = f"{self._way.id_digits}{self.physical_offset:016X}"
        values = message_id, str(head.queue), str(self.queue_offset)
        template = sending.answer_template(sends.settings, code)
        return template.encode(self, values)

"""RocketMQ's view of the topics: messages by queue offset, by physical offset and by time.

Reads give whole stored messages. Those that RocketMQ's clients have sent are slices of the log as
they are; those of NSQ's producers are made when they are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from penstock import lane
from penstock.broker.publish.batching import Outcome
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError, StorageError
from penstock.core.units import MILLISECOND
from penstock.lane import Stored
from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
from penstock.rocketmq.broker.state.topic_table import TopicTable
from penstock.rocketmq.broker.store import nsq_messages
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, Sent
from penstock.rocketmq.broker.store.serials import Serials
from penstock.rocketmq.broker.store.stored_records import StoredRecord, StoredRecords
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.ids import host_bytes, host_digits
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode, topic_part
from penstock.storage.batch import Batch, Buffer, Dialect
from penstock.storage.queues.one_queue import OneQueue

if TYPE_CHECKING:
    from penstock.node.node import Node

logger = logging.getLogger("penstock.mqbroker")

AnyRecords = StoredRecord | StoredRecords | MixedBatch | Stored
Done = Callable[[list[Placed], StorageError | None], None]
Listener = Callable[[str, Sequence[Batch]], None]
"""Told of what one commit has appended to a topic."""

_ROCKETMQ: Final = int(Dialect.ROCKETMQ)
_LAST_DIGITS: Final = [f"{number:02X}" for number in range(0x100)]


class Found(NamedTuple):
    """A stored message and its queue offset."""

    queue_offset: int
    frame: Buffer


class Slice(Struct, frozen=True, gc=False):
    """Messages ``[first, next)`` of a batch by log offset; ``queue_offset`` is of the first."""

    batch: Batch
    first: int
    next: int
    queue_offset: int


class MessageStore:
    """The messages of all topics; an observer of the node's.

    Listeners are called with each append and each deletion.
    """

    def __init__(self, node: Node, configs: TopicTable, address: ids.Host) -> None:
        """Open the store over a broker's topics. Raises StorageError."""
        self.on_append: list[Listener] = []
        self.on_append_to: dict[str, Listener] = {}
        """Listeners to one topic alone."""
        self.deleted: list[Callable[[str], None]] = []
        self.address = address
        self.serials = Serials(node.broker.store)
        self._broker = node.broker
        self._registry = node.registry
        self._commits = node.commits
        self._configs = configs
        self._bases: dict[str, int] = {}
        self.topics: Mapping[str, Topic] = node.broker.topics
        """All topics of the node that have a log, of whichever dialect."""
        for topic in self.topics.values():
            self._adopt_stored(topic)

    # --- topics --------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is not there. Raises StorageError."""
        topic = self.topics.get(name)
        if topic is None or topic.exiting:
            topic = self._registry.topic(name)
        if name not in self._bases:
            self.adopt(topic)
        return topic

    def _adopt_stored(self, topic: Topic) -> None:
        """Adopt a topic at the start, or with its next message if there is no room to write down
        its serial number. Raises StorageError.
        """
        try:
            self.adopt(topic)
        except DiskFullError as error:
            logger.error(
                "TOPIC(%s): not for RocketMQ's clients, as the disk is full - %s", topic.name, error
            )

    def has(self, name: str) -> bool:
        """True if the topic of that name has been adopted."""
        return name in self._bases

    def adopt(self, topic: Topic) -> None:
        """Look after a topic: give it its serial number and queues. Raises StorageError."""
        self._bases[topic.name] = self.serials.physical(topic.name, 0) - topic.log.id_base
        self.configured(topic.name)

    def configured(self, name: str) -> None:
        """The number of a topic's queues may have changed. Raises StorageError."""
        topic, config = self.topics.get(name), self._configs.get(name)
        if topic is not None and config is not None:
            queues = max(config.read_queues, config.write_queues)
            self._broker.split(topic, queues, config.write_queues)

    def keep_above(self, offsets: ConsumerOffsets) -> None:
        """Let no queue whose index is damaged go on below what consumers have committed."""
        for topic in self._broker.damaged:
            for queue, offset in offsets.furthest(topic.name).items():
                topic.queues.at_least(queue, offset)

    async def delete(self, name: str) -> None:
        """Delete a topic with its messages, if it has any. Raises StorageError."""
        topic = self.topics.get(name)
        if topic is not None:
            await self._registry.delete_topic(topic)
        if name not in self.topics:  # else somebody has made it again meanwhile
            self.forget(name)

    def forget(self, name: str) -> None:
        """A topic is gone. Raises StorageError, if that cannot be written down."""
        with ExitStack() as steps:
            # Runs even if a listener fails: with the old serial, a new topic of this name would
            # give out physical offsets that clients still hold for the old one's messages.
            steps.callback(self.serials.forget, name)
            self.dropped(name)

    def dropped(self, name: str) -> None:
        """A topic is not here any more, whoever has deleted it. Raises StorageError when all are
        told, if one of them cannot write that down.
        """
        self._bases.pop(name, None)
        with ExitStack() as steps:  # the last comes first
            for listener in reversed(self.deleted):
                steps.callback(listener, name)

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Batches of a topic can be read: tell the listeners. Called by the broker."""
        listeners = self.on_append
        if topic in self.on_append_to:
            # By name: a system topic's service need not look at each commit of all topics.
            listeners = [*listeners, self.on_append_to[topic]]
        for listener in listeners:
            try:
                listener(topic, batches)
            except Exception:  # the messages are stored; whatever failed must not deny that
                logger.exception("TOPIC(%s): a listener failed for new messages", topic)

    def base(self, name: str) -> int:
        """The difference between the physical offsets of a topic and the ids of its messages."""
        return self._bases[name]

    # --- putting -------------------------------------------------------------------------------

    def records(self, drafts: Sequence[Draft]) -> StoredRecord | StoredRecords:
        """Records of messages for one queue of one topic. Raises StorageError."""
        name = drafts[0].topic
        if name not in self._bases:
            self.topic(name)
        if len(drafts) == 1:
            return StoredRecord(drafts[0], self.address, self._bases[name])
        return StoredRecords(drafts, self.address, self._bases[name])

    def stored(self, data: bytes, common: Draft, more: bytes) -> Stored | None:
        """Records of a batch as it was sent, made by compiled code; None if one of its messages is
        not plain, or without compiled code. Raises StorageError.
        """
        topic = common.topic
        if topic not in self._bases:
            self.topic(topic)
        return lane.stored_of(
            data,
            more,
            topic_part(topic.encode()),
            host_bytes(common.born_host),
            host_bytes(self.address),
            common.queue,
            common.sys_flag,
            common.born_ms,
            common.reconsume_times,
            self._bases[topic],
        )

    def mixed_batch(self, messages: Sequence[Sent], common: Draft) -> MixedBatch:
        """Records of any messages of a batch. Raises StorageError."""
        if common.topic not in self._bases:
            self.topic(common.topic)
        return MixedBatch(messages, common, self.address, self._bases[common.topic])

    def put_records(self, topic: str, queue: int, records: AnyRecords, done: Outcome) -> None:
        """Append with the next commit; ``done`` is told afterwards. Raises StorageError."""
        found = self.topic(topic)
        # Only an index knows several queues; a topic of NSQ's has one until somebody asks for more.
        if queue and isinstance(found.queues, OneQueue):  # whatever its configuration says
            self._broker.split(found, queue + 1, found.spread)
        self._commits.publish(found, records, 0, done, queue)

    def put(self, drafts: Sequence[Draft], done: Done) -> None:
        """Append messages of one queue of one topic with the next commit; ``done`` is told."""
        try:
            records = self.records(drafts)

            def outcome(error: StorageError | None) -> None:
                done([] if error else self.places(records), error)

            self.put_records(drafts[0].topic, drafts[0].queue, records, outcome)
        except StorageError as error:
            # Told in the same way as a failed commit, so that callers handle both in one place.
            done([], error)

    async def append(self, draft: Draft) -> Placed:
        """Append one message and wait for its place. Raises StorageError."""
        return (await self.append_all((draft,)))[0]

    async def append_all(self, drafts: Sequence[Draft]) -> list[Placed]:
        """Append messages of one queue of one topic; wait for their places. Raises StorageError."""
        future: asyncio.Future[list[Placed]] = asyncio.get_running_loop().create_future()

        def done(placed: list[Placed], error: StorageError | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(placed)

        self.put(drafts, done)
        return await future

    def places(self, records: AnyRecords) -> list[Placed]:
        """The places of appended records."""
        first, physical = records.queue_offset, records.physical_offset
        return [
            Placed(
                first + number,
                physical + number,
                records.store_ms,
                self.message_id(physical + number),
            )
            for number in range(records.count)
        ]

    def message_id(self, physical: int) -> str:
        """The offset id of a message (``ids.OffsetId``)."""
        return f"{host_digits(self.address)}{physical:016X}"

    def message_ids(self, physical: int, count: int) -> str:
        """The ids of neighbours, with commas between."""
        host, end = host_digits(self.address), physical + count
        pieces = []
        while physical < end:
            # Of 256 neighbours only the last two digits differ: a prefix is joined with ready ones,
            # which is quicker than to format each id of a large batch.
            start = f"{host}{physical >> 8:014X}"
            low = physical & 0xFF
            pieces.append(start + f",{start}".join(_LAST_DIGITS[low : low + end - physical]))
            physical += 0x100 - low
        return ",".join(pieces)

    # --- bounds --------------------------------------------------------------------------------

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first queue offset that is still there, and the next one; (0, 0) for unknown
        queues.
        """
        found = self.topics.get(topic)
        return (0, 0) if found is None else found.queues.bounds(queue)

    def physical_bounds(self) -> tuple[int, int]:
        """The least physical offset that is kept, and what is above all; (0, 0) without topics."""
        logs = [(t.name, t.log) for t in self.topics.values() if t.name in self._bases]
        physical = self.serials.physical
        return (
            min([physical(name, log.start_offset) for name, log in logs], default=0),
            max([physical(name, log.next_offset) for name, log in logs], default=0),
        )

    def offset_at_time(self, topic: str, queue: int, ms: int) -> int:
        """The queue offset of the first message stored then or later; the next one if none was.

        Raises StorageError.
        """
        found = self.topics.get(topic)
        if found is None:
            return 0
        return found.queues.search(queue, found.log.offset_at(ms * MILLISECOND))

    def stored_ms(self, topic: str, queue: int, offset: int) -> int | None:
        """The time at which the message at a queue offset was stored; None when it is not there.

        Raises StorageError.
        """
        for part in self.slices(topic, queue, offset, 1):
            return part.batch.timestamp_ns // MILLISECOND
        return None

    # --- reading -------------------------------------------------------------------------------

    def slices(self, topic: str, queue: int, offset: int, count: int) -> Iterator[Slice]:
        """Up to ``count`` messages of a queue from an offset on, as parts of batches.

        What is damaged or gone is left out. Raises StorageError.
        """
        found = self.topics.get(topic)
        if found is not None:
            # What retention has taken counts as looked at, so that a search moves on over it.
            gone = max(0, found.queues.bounds(queue)[0] - offset)
            offset, count = offset + gone, count - gone
        while found is not None and count > 0:
            places = found.queues.locate(queue, offset, count)
            if not places:
                return
            index = 0
            while index < len(places):
                first = places[index]
                batch = found.log.batch_at(first)
                # A damaged place does not say how long it is, so it is stepped over message by
                # message.
                run = 1
                if batch is not None:
                    run = min(len(places) - index, batch.next_offset - first)
                    yield Slice(batch, first, first + run, offset + index)
                index += run
            offset += len(places)
            count -= len(places)

    def frames(self, topic: str, part: Slice) -> list[Buffer]:
        """The stored messages of a slice, one by one."""
        batch = part.batch
        if batch.dialect != _ROCKETMQ:
            return list(self._converted(topic, part))
        return [batch.slice(offset, offset + 1) for offset in range(part.first, part.next)]

    def piece(self, topic: str, part: Slice) -> Buffer:
        """The stored messages of a slice, back to back."""
        batch = part.batch
        if batch.dialect != _ROCKETMQ:
            return b"".join(self._converted(topic, part))
        if part.next - part.first == batch.count:
            return batch.frames
        return batch.slice(part.first, part.next)

    def _converted(self, topic: str, part: Slice) -> list[bytes]:
        return nsq_messages.frames(
            part.batch,
            part.first,
            part.next,
            topic=topic,
            queue=part.batch.queue,
            queue_offset=part.queue_offset,
            physical=self.serials.physical(topic, part.first),
            host=self.address,
        )

    def read(self, topic: str, queue: int, offset: int, count: int, nbytes: int) -> list[Found]:
        """Up to ``count`` messages of a queue and about ``nbytes`` of them, at least one if any.

        Raises StorageError.
        """
        found: list[Found] = []
        for part in self.slices(topic, queue, offset, count):
            for number, frame in enumerate(self.frames(topic, part)):
                if found and nbytes < len(frame):
                    return found
                nbytes -= len(frame)
                found.append(Found(part.queue_offset + number, frame))
        return found

    # --- single messages -----------------------------------------------------------------------

    def frame(self, physical: int) -> bytes | None:
        """The stored message at a physical offset; None if not found. Raises StorageError."""
        place = self.serials.locate(physical)
        topic = self.topics.get(place[0]) if place is not None else None
        if topic is None or place is None:
            return None
        offset = place[1]
        if not topic.log.start_offset <= offset < topic.log.next_offset:
            return None
        batch = topic.log.batch_at(offset)
        if batch is None:
            return None
        queue_offset = 0
        if batch.dialect != _ROCKETMQ:
            # A frame of ours states its queue offset; one that is made of NSQ's has to be told.
            queue_offset = topic.queues.search(batch.queue, offset)
        return bytes(self.piece(topic.name, Slice(batch, offset, offset + 1, queue_offset)))

    def message(self, physical: int) -> StoredMessage | None:
        """The decoded message at a physical offset; None if not found. Raises StorageError."""
        frame = self.frame(physical)
        return None if frame is None else decode(frame)[0]

    def message_at(self, topic: str, queue: int, offset: int) -> StoredMessage | None:
        """The message at a queue offset; None when it is not there. Raises StorageError."""
        for part in self.slices(topic, queue, offset, 1):
            return decode(bytes(self.piece(topic, part)))[0]
        return None

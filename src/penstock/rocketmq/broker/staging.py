"""Staged messages of RocketMQ: batches of sends that get their queues and offsets with a commit.

A chunk is a series of sections, big endian: u32 shard, u32 length, and the messages of that length,
as a batch send has them. A shard's messages stay in one queue; those of shard 0 go to any.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.broker.publish.commit import BatchPlace, Stamp, unplaced
from penstock.core.clock import wall_ms
from penstock.core.units import MILLISECOND
from penstock.node.dialect import StagingError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.topic_table import WRITE
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.messages.stamps import stamp
from penstock.storage.batch import Batch, Dialect

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.send.sending import Sends
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import AnyRecords, MessageStore

SECTIONS_MAX: Final = 1024
"""The most sections of a chunk, each of which becomes a batch of the log."""
_NEW_TOPIC_QUEUES: Final = 4  # as clients ask for
_SECTION = struct.Struct(">II")


class RocketStaging:
    """The answers to nsqd's requests to stage with ``dialect=rocketmq``."""

    dialect: Final = "rocketmq"
    frames: Final = Dialect.ROCKETMQ

    def __init__(
        self,
        sends: Sends,
        settings: BrokerSettings,
        topics: TopicTable,
        store: MessageStore,
        name_servers: NameServers,
        clock: Clock,
    ) -> None:
        self._sends = sends
        self._settings = settings
        self._topics = topics
        self._store = store
        self._name_servers = name_servers
        self._clock = clock

    async def topic(self, name: str) -> Topic:
        """The topic, which name servers know. Raises StagingError for one that takes no messages,
        or that nobody may make.
        """
        topics_before = self._topics.version.counter
        problem = names.topic_problem(name)
        if problem is not None:
            raise StagingError("INVALID_TOPIC", problem)
        if name in names.NOT_FOR_CLIENTS or names.is_inner(name):
            raise StagingError("INVALID_TOPIC", f"topic {name} is the broker's own")
        config = self._topics.get(name)
        if config is None:
            config = self._topics.make_for_send(
                name, names.TEMPLATE_TOPIC, _NEW_TOPIC_QUEUES, wall_ms(self._clock)
            )
            if config is None:
                raise StagingError("TOPIC_NOT_FOUND", "autoCreateTopicEnable is false")
            self._sends.make_log(name)
        if not config.perm & WRITE:
            raise StagingError("TOPIC_NOT_WRITABLE", f"its permission is {config.perm}")
        topic = self._store.topic(name)
        self._store.configured(name)
        await self._name_servers.registered_since(topics_before)
        return topic

    def read(self, topic: Topic, body: bytes) -> list[Batch]:
        return [
            unplaced(self._records(topic.name, messages), 0, shard)
            for shard, messages in _sections(body)
        ]

    def stamp(self, topic: Topic) -> Stamp:
        base = self._store.base(topic.name)

        def write(batch: Batch, spot: BatchPlace) -> int:
            return stamp(
                batch.frames,
                batch.positions()[:-1],
                spot.queue,
                spot.queue_offset,
                base + spot.first_id,
                spot.timestamp_ns // MILLISECOND,
            )

        return write

    def _records(self, topic: str, messages: bytes) -> AnyRecords:
        """The messages of a section. Raises StagingError."""
        size_max = self._settings.max_message_size
        common = Draft(topic, 0, b"", born_ms=wall_ms(self._clock), born_host=self._store.address)
        try:
            records = self._sends.batch(messages, common, self._sends.shared_text(""))
        except RefusedError as error:
            raise StagingError("BAD_BODY", str(error)) from None
        if records.largest > size_max:
            text = f"a body of {records.largest} bytes is more than maxMessageSize, {size_max}"
            raise StagingError("MSG_TOO_BIG", text)
        return records


def _sections(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Shards and their messages, at least one. Raises StagingError."""
    place = count = 0
    while place < len(body) or not count:
        count += 1
        if count > SECTIONS_MAX:
            raise StagingError("BAD_BODY", f"more than {SECTIONS_MAX} sections")
        if len(body) - place < _SECTION.size:
            raise StagingError("BAD_BODY", f"a section that is cut short, at byte {place}")
        shard, nbytes = _SECTION.unpack_from(body, place)
        place += _SECTION.size
        if nbytes > len(body) - place:
            raise StagingError("BAD_BODY", f"a section that is cut short, at byte {place}")
        yield shard, body[place : place + nbytes]
        place += nbytes

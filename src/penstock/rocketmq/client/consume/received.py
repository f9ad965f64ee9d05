"""A message in a consumer's hands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.client.names import RETRY, unwrap
from penstock.rocketmq.client.produce.compression import BODY_BYTES_MAX, decompress
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages import properties as names
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, decode_all

_MS_PER_S: Final = SECOND // MILLISECOND
_BATCH: Final = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
_TAKEN_OFF: Final = ~(_BATCH | SysFlag.COMPRESSED)


class Received:
    """One message as a broker has stored it.

    ``id`` is what its producer calls it, ``offset_id`` what its broker does. ``reconsume_times``
    counts how often it was handled in vain.
    """

    __slots__ = ("_properties", "body", "broker", "reconsume_times", "stored", "topic")

    def __init__(
        self,
        stored: StoredMessage,
        broker: str = "",
        namespace: str = "",
        most: int = BODY_BYTES_MAX,
    ) -> None:
        """Unpack a body that becomes no longer than ``most``."""
        self.stored = stored
        """The message in the words of the protocol."""
        self.broker = broker
        """The broker that it came from."""
        self._properties: dict[str, str] | None = None
        self.reconsume_times = stored.reconsume_times
        topic = stored.topic
        if topic.startswith(RETRY):
            topic = names.value_of(stored.properties, names.RETRY_TOPIC) or topic
        self.topic = unwrap(namespace, topic) if namespace else topic
        """The topic that it was sent to, also when it comes again."""
        self.body = (
            stored.body
            if not stored.sys_flag & 1
            else decompress(stored.body, stored.sys_flag, most)
        )

    @property
    def properties(self) -> dict[str, str]:
        """All of them, those of the system included."""
        if self._properties is None:
            self._properties = names.parse(self.stored.properties)
        return self._properties

    @property
    def queue(self) -> MessageQueue:
        """The queue that it came from: one of a retry topic when it comes again."""
        return MessageQueue(self.broker, self.stored.queue, self.stored.topic)

    @property
    def queue_offset(self) -> int:
        return self.stored.queue_offset

    @property
    def id(self) -> str:
        return names.value_of(self.stored.properties, names.UNIQUE_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        return self.stored.offset_id

    @property
    def tags(self) -> str:
        return names.value_of(self.stored.properties, names.TAGS) or ""

    @property
    def keys(self) -> list[str]:
        return (names.value_of(self.stored.properties, names.KEYS) or "").split()

    @property
    def born_at(self) -> float:
        """The Unix time at which it was sent."""
        return self.stored.born_ms / _MS_PER_S

    @property
    def stored_at(self) -> float:
        """The Unix time at which the broker stored it."""
        return self.stored.store_ms / _MS_PER_S

    @property
    def born_host(self) -> str:
        """The address that it was sent from."""
        return str(self.stored.born_host)

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it."""
        return str(self.stored.store_host)

    @property
    def flag(self) -> int:
        """The number that its producer gave it."""
        return self.stored.flag

    @property
    def transaction_id(self) -> str:
        """The transaction's id, if the message was sent in one."""
        return self.properties.get("__transactionId__") or self.id

    def __repr__(self) -> str:
        return (
            f"Received(topic={self.topic!r}, queue={self.stored.queue}, "
            f"offset={self.queue_offset}, id={self.id!r}, {len(self.body)} bytes)"
        )


def all_received(body: bytes, broker: str, namespace: str = "", first: int = 0) -> list[Received]:
    """The messages of an answer to a pull from queue offset ``first``. Raises BadAnswer."""
    return list(each_received(body, broker, namespace, first))


def each_received(
    body: bytes, broker: str, namespace: str = "", first: int = 0, most: int = BODY_BYTES_MAX
) -> Iterator[Received]:
    """The messages of an answer, each unpacked when it is asked for."""
    try:
        for stored in unwrapped(decode_all(body), first):
            yield Received(stored, broker, namespace, most)
    except BodyError as error:
        raise BadAnswer(f"broker {broker}: {error}") from None


def unwrapped(records: Iterable[StoredMessage], first: int) -> Iterator[StoredMessage]:
    """All messages, those of batches from queue offset ``first`` on. Raises BodyError.

    A broker of 5.x stores a batch as one message in topics with ``queue.type=BatchCQ``, which has
    as many queue offsets as it holds messages: consumers take it apart. A pull from the middle of a
    batch gets all of it.
    """
    for stored in records:
        if stored.sys_flag & _BATCH == _BATCH:
            yield from (each for each in _inner(stored) if each.queue_offset >= first)
        else:
            yield stored


def _inner(stored: StoredMessage) -> Iterator[StoredMessage]:
    body = stored.body
    if stored.sys_flag & SysFlag.COMPRESSED:
        body = decompress(body, stored.sys_flag)
    for ahead, message in enumerate(batch_body.decode(body)):
        yield replace(
            stored,
            body=message.body,
            properties=message.properties,
            flag=message.flag,
            queue_offset=stored.queue_offset + ahead,
            sys_flag=stored.sys_flag & _TAKEN_OFF,
        )

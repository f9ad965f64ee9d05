"""Receipts of popped messages: what proves to a broker that it has handed a message out.

A receipt is a text, ``ckQueueOffset popTime invisibleTime reviveQid retryFlag brokerName queueId
queueOffset``, which clients make of an answer's fields (RocketMQ spec 2.7).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple

from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.rocketmq.protocol.pop_info import BITS_MAX

_NORMAL, _RETRY_V1, _RETRY_V2 = "0", "1", "2"


class Receipt(NamedTuple):
    """The words of a receipt; ``retry`` is ``0`` for a message of the topic itself."""

    start: str
    popped: str
    invisible: str
    revive_queue: str
    retry: str
    broker: str
    queue: str
    offset: str

    @classmethod
    def parse(cls, text: str, offset: int) -> Receipt:
        """From a text that may lack the message's own offset. Raises BodyError, ValueError."""
        words = text.split(" ")
        if len(words) < len(cls._fields) - 1:
            raise BodyError(f"no receipt of a popped message: {shortened(text)}")
        return cls(*[*words, str(offset)][: len(cls._fields)]).checked()

    def checked(self) -> Receipt:
        """The receipt itself. Raises BodyError when its message is not one of the pop's, ValueError
        when a part is not a number.
        """
        start, _, _, _, _, offset = map(int, (*self[:4], self.queue, self.offset))
        # A batch acknowledgement has a bit for each place after the first, so this bounds its
        # bytes.
        if not 0 <= offset - start < BITS_MAX:
            raise BodyError(
                f"a receipt for a message that was not popped then: {shortened(str(self))}"
            )
        return self

    def __str__(self) -> str:
        return " ".join(self)

    def topic(self, group: str, topic: str) -> str:
        """The topic that the message was popped from, which differs for the group's retries."""
        if self.retry == _RETRY_V1:
            return f"{RETRY}{group}_{topic}"
        return f"{RETRY}{group}+{topic}" if self.retry == _RETRY_V2 else topic

    def renewed(self, answer: Command) -> Receipt:
        """The receipt after the message was hidden for another time. Raises BodyError."""
        return self._replace(
            popped=str(answer.int64("popTime")),
            invisible=str(answer.int64("invisibleTime")),
            revive_queue=str(answer.int32("reviveQid")),
        )


class Handout(NamedTuple):
    """The fields of an answer to a pop, of which receipts are made."""

    times: tuple[str, str]
    revive_queue: str
    starts: Mapping[tuple[str, str], int]
    """The first offsets that were popped, by retry flag and queue."""
    counts: Mapping[tuple[str, str], int]
    """The times that messages were popped in order before, by retry flag and queue, or offset."""

    @classmethod
    def of(cls, answer: Command) -> Handout:
        """Parse a receipt. Raises BodyError, ValueError."""
        return cls(
            (str(answer.int64("popTime")), str(answer.int64("invisibleTime"))),
            str(answer.int32("reviveQid")),
            _table(answer.optional("startOffsetInfo")),
            _table(answer.optional("orderCountInfo")),
        )

    def receipt(self, stored: StoredMessage, broker: str) -> Receipt:
        """The receipt of a message. Raises BodyError, ValueError."""
        # A message that was popped before brings its receipt; others get theirs here, as in Java.
        own = properties.value_of(stored.properties, properties.POP_CK)
        if own is not None:
            return Receipt.parse(own, stored.queue_offset)
        flag, queue, offset = _flag(stored), str(stored.queue), str(stored.queue_offset)
        start = str(self.starts.get((flag, queue), offset))
        return Receipt(start, *self.times, self.revive_queue, flag, broker, queue, offset).checked()

    def count(self, stored: StoredMessage) -> int:
        """The times that a message was popped in order before; older brokers count by queues."""
        flag, queue = _flag(stored), str(stored.queue)
        count = self.counts.get((flag, f"qo{queue}%{stored.queue_offset}"))
        return self.counts.get((flag, queue), 0) if count is None else count


def _flag(stored: StoredMessage) -> str:
    return _RETRY_V1 if stored.topic.startswith(RETRY) else _NORMAL


def _table(text: str | None) -> dict[tuple[str, str], int]:
    """Triples of retry flag, place and number, as answers list them. Raises ValueError."""
    found = {}
    for each in filter(None, (text or "").split(";")):
        flag, place, value = each.split(" ")[:3]
        found[flag, place] = int(value)
    return found


def batch_of_acks(broker: str, group: str, topic: str, receipts: Iterable[Receipt]) -> Any:
    """The body of a request that acknowledges several messages of a broker.

    Messages that were popped together share an entry, in which each has a bit.
    """
    bits: dict[Receipt, int] = {}
    for receipt in receipts:
        together = receipt._replace(offset="")
        bits[together] = bits.get(together, 0) | 1 << int(receipt.offset) - int(receipt.start)
    return {
        "brokerName": broker,
        "acks": [_entry(group, topic, receipt, places) for receipt, places in bits.items()],
    }


def _entry(group: str, topic: str, receipt: Receipt, places: int) -> dict[str, Any]:
    # Java's BitSet, whose bytes are little-endian (RocketMQ spec 2.7).
    data = places.to_bytes((places.bit_length() + 7) // 8, "little")
    return {
        "c": group,
        "t": topic,
        "r": receipt.retry,
        "so": int(receipt.start),
        "q": int(receipt.queue),
        "rq": int(receipt.revive_queue),
        "pt": int(receipt.popped),
        "it": int(receipt.invisible),
        "b": base64.b64encode(data).decode(),
    }

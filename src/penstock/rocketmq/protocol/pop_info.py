"""The texts of POP's headers, which tell popped messages apart (RocketMQ spec 2.7).

A popped message has a receipt, its *extra info*: ``ckQueueOffset popTime invisibleTime reviveQid
retryFlag brokerName queueId [queueOffset]``, times in ms. Clients make it of the answer's fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as shortened
from typing import Any, Final, NamedTuple

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

NORMAL: Final = "0"
"""The retry flag of a message that comes from its own topic."""
_FIELDS_MIN: Final = 4
IN_ORDER: Final = 999
"""The revive queue in receipts of messages that were popped in order."""
BITS_MAX: Final = 64 * 1024
"""The number of messages of a queue that a client may acknowledge at once."""


class Receipt(NamedTuple):
    """The part of an acknowledgement that says when the message was popped. Times in ms."""

    pop_ms: int
    invisible_ms: int
    revive_queue: int

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """From an extra info. Raises BodyError."""
        words = text.split(" ")
        try:
            numbers = [int(word) for word in words[:_FIELDS_MIN]]
        except ValueError:
            numbers = []
        if len(numbers) < _FIELDS_MIN:
            raise BodyError(f"no extra info of a popped message: {shortened(text)}")
        return cls(*numbers[1:])

    @property
    def is_in_order(self) -> bool:
        return self.revive_queue == IN_ORDER


class BatchAck(NamedTuple):
    """Messages of one queue that one request acknowledges; ``offsets`` are queue offsets."""

    group: str
    topic: str
    queue: int
    receipt: Receipt
    offsets: list[int]

    @classmethod
    def parse_all(cls, body: bytes) -> list[BatchAck]:
        """All of a request's body. Raises BodyError."""
        value = fastjson.loads(body) if body else {}
        listed = value.get("acks") if isinstance(value, dict) else None
        if not isinstance(listed or [], list):
            raise BodyError("acks is not a list")
        return [cls.parse(each) for each in listed or ()]

    @classmethod
    def parse(cls, value: Any) -> BatchAck:
        """From an entry of the body, with short names or long ones. Raises BodyError."""
        if not isinstance(value, dict):
            raise BodyError("an acknowledgement that is not an object")
        start = _number(value, "so", "startOffset")
        bits = _bits(value.get("b", value.get("bitSet")))
        return cls(
            _word(value, "c", "consumerGroup"),
            _word(value, "t", "topic"),
            _number(value, "q", "queueId"),
            Receipt(
                _number(value, "pt", "popTime"),
                _number(value, "it", "invisibleTime"),
                _number(value, "rq", "reviveQueueId"),
            ),
            [start + bit for bit in bits],
        )


def _word(value: Mapping[str, Any], short: str, long: str) -> str:
    found = value.get(short, value.get(long))
    if not isinstance(found, str) or not found:
        raise BodyError(f"an acknowledgement without {long}")
    return found


def _number(value: Mapping[str, Any], short: str, long: str) -> int:
    found = value.get(short, value.get(long))
    if type(found) is not int:
        raise BodyError(f"an acknowledgement without {long}")
    return found


def _bits(value: Any) -> list[int]:
    """The places of the bits that are set; bytes in base64, the least first."""
    try:
        data = base64.b64decode(value or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BodyError(f"a bit set that is not base64: {shortened(value)}") from None
    if len(data) * 8 > BITS_MAX:
        raise BodyError(f"a bit set of more than {BITS_MAX} bits")
    bits = int.from_bytes(data, "little")
    return [place for place in range(bits.bit_length()) if bits >> place & 1]


def start_offset_info(offsets: Mapping[int, Sequence[int]]) -> str:
    """The first offset popped of each queue; ``offsets`` are by queue and in order."""
    return ";".join(f"{NORMAL} {queue} {found[0]}" for queue, found in offsets.items())


def message_offset_info(offsets: Mapping[int, Iterable[int]]) -> str:
    """All offsets popped of each queue."""
    return ";".join(
        f"{NORMAL} {queue} {','.join(map(str, found))}" for queue, found in offsets.items()
    )


class QueueCounts(NamedTuple):
    """The number of times that messages of a queue were popped in order before.

    ``least`` is that of all messages that were popped; ``counts`` has those above 0 by offset.
    """

    queue: int
    least: int
    counts: Mapping[int, int]


def order_count_info(found: Iterable[QueueCounts]) -> str:
    """The pops so far of each message popped before, then of its queue, for older clients."""
    words = []
    for queue, least, counts in found:
        words += [f"{NORMAL} qo{queue}%{offset} {count}" for offset, count in counts.items()]
        words.append(f"{NORMAL} {queue} {least}")
    return ";".join(words)

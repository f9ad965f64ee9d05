"""The body of a batch send: messages one after the other (RocketMQ spec 3.6).

    TOTALSIZE 4, MAGIC 4, BODYCRC 4, FLAG 4, body length 4 + body, properties length 2 + text

Topic, queue and birth come from the command's header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.properties import BYTES_MAX

_HEAD = struct.Struct(">iiiii")
_SHORT = struct.Struct(">h")


class BatchedMessage(NamedTuple):
    """One message of a batch."""

    body: bytes
    properties: str = ""
    flag: int = 0


def encode(messages: Iterable[BatchedMessage]) -> bytes:
    """The body that holds these messages. Raises ValueError when properties are too long."""
    parts = []
    for body, properties, flag in messages:
        text = properties.encode("utf-8", "replace")
        if len(text) > BYTES_MAX:
            raise ValueError("properties of more than 32767 bytes")
        total = _HEAD.size + len(body) + _SHORT.size + len(text)
        parts += [_HEAD.pack(total, 0, 0, flag, len(body)), body, _SHORT.pack(len(text)), text]
    return b"".join(parts)


def decode(data: bytes | memoryview) -> list[BatchedMessage]:
    """The messages of a batch, at least one. Raises BodyError."""
    return [
        BatchedMessage(body, text.decode("utf-8", "replace"), flag)
        for flag, body, text in parts(data)
    ]


def parts(data: bytes | memoryview) -> list[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message of a batch, at least one. Raises BodyError."""
    data = bytes(data)  # no copy when it is bytes already
    messages = []
    place, size = 0, len(data)
    while place < size:
        try:
            total, _, _, flag, length = _HEAD.unpack_from(data, place)
            body_at = place + _HEAD.size
            (text_length,) = _SHORT.unpack_from(data, body_at + max(0, length))
        except struct.error:
            raise BodyError(f"a batch that is cut short, at byte {place}") from None
        text_at = body_at + length + _SHORT.size
        end = text_at + text_length
        if length < 0 or text_length < 0 or end > size or end - place != total:
            raise BodyError(f"a batch whose sizes do not fit together, at byte {place}")
        messages.append((flag, data[body_at : body_at + length], data[text_at:end]))
        place = end
    if not messages:
        raise BodyError("a batch without messages")
    return messages

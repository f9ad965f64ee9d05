"""The origins of dead letters, as the notes of their batches have them.

A note is a MessagePack list, which nsqd reads with msgspec. Executors of Spark may lack that, so
this is a reader of just such lists.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from penstock.storage.batch import Buffer

_UNSIGNED: Final = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_TEXTS: Final = {0xD9: ">B", 0xDA: ">H"}
_LISTS: Final = {0xDC: ">H", 0xDD: ">I"}
# Notes of versions that gave no reason are of messages that had all their attempts.
_REASON: Final = "max_attempts"
_DEPTH_MAX: Final = 2


class Origins(NamedTuple):
    """Origins of the messages of a batch; ``ids`` and ``attempts`` have an entry for each."""

    topic: str
    channel: str
    ids: list[int]
    attempts: list[int]
    reason: str = _REASON


def origins_in(note: Buffer, count: int) -> Origins | None:
    """The origins of a batch of ``count`` messages; None if its note is not one of dead letters."""
    if not len(note):
        return None
    try:
        read, end = _value(memoryview(note), 0, _DEPTH_MAX)
    except (ValueError, IndexError, struct.error):
        return None
    if end != len(note) or not isinstance(read, list) or not 4 <= len(read) <= 5:
        return None
    origins = Origins(*read)
    texts = (origins.topic, origins.channel, origins.reason)
    lists = (origins.ids, origins.attempts)
    if not all(isinstance(text, str) for text in texts):
        return None
    return origins if all(_is_numbers(each, count) for each in lists) else None


def _is_numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(each, int) for each in value)
    )


def _value(data: memoryview, at: int, depth: int) -> tuple[Any, int]:
    """The value at this place and where it ends. ValueError for one of another kind."""
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind in _UNSIGNED:
        return _unsigned(data, at, _UNSIGNED[kind])
    if kind >> 5 == 0b101 or kind in _TEXTS:
        size, at = _unsigned(data, at, _TEXTS[kind]) if kind in _TEXTS else (kind & 0x1F, at)
        if at + size > len(data):
            raise ValueError("a text is cut off")
        return str(data[at : at + size], "utf-8"), at + size
    if depth and (kind >> 4 == 0b1001 or kind in _LISTS):
        count, at = _unsigned(data, at, _LISTS[kind]) if kind in _LISTS else (kind & 0x0F, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, depth - 1)
            values.append(value)
        return values, at
    raise ValueError(f"a value of kind {kind:#x}")


def _unsigned(data: memoryview, at: int, form: str) -> tuple[int, int]:
    (number,) = struct.unpack_from(form, data, at)
    return number, at + struct.calcsize(form)


# An NSQ message frame: size u32, type u32, timestamp i64, attempts u16, id 16 bytes, body.

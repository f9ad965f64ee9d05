"""Stored messages back to back, as brokers give them: where each part of each lies.

All arrays have an entry a message and are made by numpy; see ``rocketmq.protocol.message``.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.rocketmq.protocol.messages.message import (
    BODY_LENGTH_AT,
    IPV6_EXTRA,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    SysFlag,
)
from penstock.spark.errors import SourceError

Longs: TypeAlias = npt.NDArray[np.int64]

_BYTES_MIN: Final = BODY_LENGTH_AT + 4 + 1 + 2
_MAGIC_AT: Final = 4
_BORN_MS_AT: Final = 40
_STORE_MS_AT: Final = 56
"""After a host of IPv4."""
_HEAD = struct.Struct(">ii").unpack_from
_MAGICS: Final = tuple(magic - (1 << 32) for magic in (MAGIC_V1, MAGIC_V2))


class Spans(NamedTuple):
    """A part of each message: its start, and its end (not included)."""

    starts: Longs
    ends: Longs


class Stored:
    """The messages of one buffer; ``at`` is where each starts."""

    def __init__(self, data: bytes, at: Longs) -> None:
        self.data = data
        self.at = at
        self._raw = np.frombuffer(data, np.uint8)

    @classmethod
    def parse(cls, data: bytes) -> Stored:
        """Raise SourceError for bytes that are not stored messages."""
        return cls(data, _starts(data))

    def __len__(self) -> int:
        return len(self.at)

    def between(self, first: int, last: int) -> Stored:
        """The messages whose queue offsets lie in ``[first, last)``."""
        offsets = self.queue_offsets
        return Stored(self.data, self.at[(offsets >= first) & (offsets < last)])

    def first(self, count: int) -> Stored:
        """The first messages."""
        return Stored(self.data, self.at[:count])

    @property
    def queue_offsets(self) -> Longs:
        return self._ints(self.at + QUEUE_OFFSET_AT, 8)

    @property
    def sys_flags(self) -> Longs:
        return self._ints(self.at + SYS_FLAG_AT, 4)

    @property
    def born_ms(self) -> Longs:
        return self._ints(self.at + _BORN_MS_AT, 8)

    @property
    def store_ms(self) -> Longs:
        born_ipv6 = (self.sys_flags & SysFlag.BORN_HOST_IPV6) != 0
        return self._ints(self.at + _STORE_MS_AT + IPV6_EXTRA * born_ipv6, 8)

    def parts(self) -> tuple[Spans, Spans]:
        """The bodies and the properties. Raises SourceError for lengths that make no sense."""
        flags = self.sys_flags
        hosts_ipv6 = ((flags & SysFlag.BORN_HOST_IPV6) != 0).astype(np.int64)
        hosts_ipv6 += (flags & SysFlag.STORE_HOST_IPV6) != 0
        bodies = self.at + BODY_LENGTH_AT + IPV6_EXTRA * hosts_ipv6 + 4
        try:
            body_ends = bodies + self._ints(bodies - 4, 4)
            is_v2 = self._ints(self.at + _MAGIC_AT, 4) == _MAGICS[1]
            # The length of a topic has one byte in V1, which is read as the second of two.
            lengths = self._ints(body_ends - 1 + is_v2, 2)
            topic_lengths = np.where(is_v2, lengths, lengths & 0xFF)
            properties = body_ends + 1 + is_v2 + topic_lengths + 2
            ends = properties + self._ints(properties - 2, 2)
        except IndexError:
            raise _nonsense(0) from None
        wrong = (ends != self.at + self._ints(self.at, 4)) | (body_ends < bodies)
        wrong |= (properties < body_ends) | (ends < properties)
        if wrong.any():
            raise _nonsense(int(self.at[int(wrong.argmax())]))
        return Spans(bodies, body_ends), Spans(properties, ends)

    def _ints(self, at: Longs, width: int) -> Longs:
        """Big-endian integers of that many bytes at these places."""
        rows = self._raw[at[:, None] + np.arange(width)]
        found: Longs = rows.view(f">i{width}")[:, 0].astype(np.int64)
        return found


def _starts(data: bytes) -> Longs:
    """The starts of the messages; at once where all are of one size, as is usual."""
    if not data:
        return np.empty(0, np.int64)
    size, _ = _head(data, 0)
    if len(data) % size == 0:
        heads = np.frombuffer(data, np.uint8).reshape(-1, size)[:, : _MAGIC_AT + 4]
        if (heads == heads[0]).all():
            return np.arange(0, len(data), size, dtype=np.int64)
    found = []
    place = 0
    while place < len(data):
        size, _ = _head(data, place)
        found.append(place)
        place += size
    return np.array(found, np.int64)


def _head(data: bytes, place: int) -> tuple[int, int]:
    """Size and magic of the message at this place. Raises SourceError if no message is there."""
    left = len(data) - place
    size, magic = _HEAD(data, place) if left >= _BYTES_MIN else (0, 0)
    if not _BYTES_MIN <= size <= left or magic not in _MAGICS:
        raise _nonsense(place)
    return size, magic


def _nonsense(place: int) -> SourceError:
    return SourceError(
        f"the broker has sent something that is not a stored message, at byte {place}"
    )

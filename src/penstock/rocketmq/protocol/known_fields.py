"""Fields that were the same the last time are not read again.

A client's requests of one kind differ in few fields: queue, time and properties of a send, queue
and offset of a pull. What lies between those is compared as bytes, in a few steps, and only the
fields that differ are cut out. What is read so is what a full reading gives: the same bytes stand
at the same places.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

CODES_MAX: Final = 16
"""Kinds of requests that are remembered of one connection."""
MISSES_MAX: Final = 64
"""A client whose requests are always others is read in full from then on."""
BYTES_MAX: Final = 4096
_LENGTH = struct.Struct(">I")  # unsigned, so that a negative one leads behind the end
_LENGTH_BYTES: Final = _LENGTH.size
_length = _LENGTH.unpack_from
_NAME_LENGTH = struct.Struct(">H")


class _Field(NamedTuple):
    """A field in the bytes: its name, where it starts, where its value is."""

    name: str
    start: int
    value_at: int
    end: int


class KnownFields:
    """The fields of one kind of request, as a client sent them before."""

    __slots__ = ("_data", "_fields", "_parts", "_same", "_tail", "_varying", "misses")

    def __init__(self) -> None:
        self.misses = 0
        self._data = b""
        self._fields: list[_Field] = []
        self._varying: set[str] = set()
        self._parts: list[tuple[bytes, int, str]] = []
        self._same: dict[str, str] = {}
        self._tail: bytes | None = None

    def read(self, data: bytes) -> dict[str, str] | None:
        """Names and values; None when these fields must be read in full."""
        if self._tail is None:
            return None
        fields = self._same.copy()
        place = 0
        try:
            for before, size, name in self._parts:
                if not data.startswith(before, place):
                    return None
                start = place + size
                (length,) = _length(data, start - _LENGTH_BYTES)
                place = start + length
                fields[name] = data[start:place].decode()
        except (struct.error, UnicodeDecodeError):
            return None
        return fields if place <= len(data) and data[place:] == self._tail else None

    def learn(self, data: bytes) -> None:
        """Take fields that were read in full, and make sense."""
        self.misses += 1
        fields = _fields(data)
        names = [field.name for field in fields]
        if names != [field.name for field in self._fields] or len(set(names)) < len(names):
            self._varying = set()
            self._tail = None
        else:
            for old, new in zip(self._fields, fields, strict=True):
                if self._data[old.value_at : old.end] != data[new.value_at : new.end]:
                    self._varying.add(new.name)
            self._build(data, fields)
        self._data, self._fields = data, fields

    def _build(self, data: bytes, fields: list[_Field]) -> None:
        self._parts = []
        self._same = {}
        start = 0
        for field in fields:
            if field.name in self._varying:
                before = data[start : field.value_at - _LENGTH_BYTES]
                self._parts.append((before, len(before) + _LENGTH_BYTES, field.name))
                start = field.end
            else:
                value = data[field.value_at : field.end]
                self._same[field.name] = value.decode("utf-8", "replace")
        self._tail = data[start:]


def _fields(data: bytes) -> list[_Field]:
    found = []
    place = 0
    while place < len(data):
        start = place
        (name_length,) = _NAME_LENGTH.unpack_from(data, place)
        name_at = place + _NAME_LENGTH.size
        name_end = name_at + name_length
        (length,) = _LENGTH.unpack_from(data, name_end)
        value_at = name_end + _LENGTH.size
        place = value_at + length
        found.append(
            _Field(data[name_at:name_end].decode("utf-8", "replace"), start, value_at, place)
        )
    return found


class KnownRequests:
    """The fields remembered of one connection, by request code."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, KnownFields] = {}

    def of(self, code: int) -> KnownFields | None:
        """The fields remembered for this code; None if such requests must be read in full."""
        known = self._known.get(code)
        if known is None:
            if len(self._known) >= CODES_MAX:
                return None
            known = self._known[code] = KnownFields()
        return known if known.misses < MISSES_MAX else None

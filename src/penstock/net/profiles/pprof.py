"""Profiles as gzipped ``profile.proto``, which ``go tool pprof`` and speedscope open.

Only the few rules of protocol buffers that this message needs: every number a varint, everything
else a length and bytes (https://github.com/google/pprof/blob/main/proto/profile.proto).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.net.profiles.call_stacks import Frame


class ValueType(NamedTuple):
    """A value's kind and unit: ("cpu", "nanoseconds")."""

    kind: str
    unit: str


class Profile:
    """Samples, each a stack with one value per type. ``default`` names the type shown first."""

    def __init__(
        self,
        types: Sequence[ValueType],
        *,
        program: str,
        time_ns: int,
        duration_ns: int = 0,
        period: tuple[ValueType, int] | None = None,
        default: str = "",
        comment: str = "",
    ) -> None:
        self._types = types
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Frame, int] = {}
        self._parts: list[bytes] = []
        for each in types:
            self._put(1, self._value_type(each))
        # One mapping that says all names are known keeps pprof from looking for the program file.
        known = b"".join(_number(field, 1) for field in (7, 8, 9, 10))
        self._put(3, _number(1, 1) + _number(5, self._string(program)) + known)
        self._numbers = _number(9, time_ns) + _number(10, duration_ns)
        if period is not None:
            self._put(11, self._value_type(period[0]))
            self._numbers += _number(12, period[1])
        if comment:
            self._numbers += _number(13, self._string(comment))
        self._numbers += _number(14, self._string(default))

    def add(
        self, stack: Iterable[Frame], values: Sequence[int], labels: Mapping[str, str] | None = None
    ) -> None:
        """A sample; the stack starts with the innermost frame."""
        assert len(values) == len(self._types)
        places = [self._location(frame) for frame in stack]
        sample = _packed(1, places) + _packed(2, values)
        for key, value in (labels or {}).items():
            label = _number(1, self._string(key)) + _number(2, self._string(value))
            sample += _bytes(3, label)
        self._put(2, sample)

    def encode(self) -> bytes:
        """The whole profile, gzipped."""
        strings = b"".join(_bytes(6, text.encode("utf-8", "replace")) for text in self._strings)
        return gzip.compress(b"".join(self._parts) + strings + self._numbers, 1)

    def _put(self, field: int, message: bytes) -> None:
        self._parts.append(_bytes(field, message))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, each: ValueType) -> bytes:
        return _number(1, self._string(each.kind)) + _number(2, self._string(each.unit))

    def _location(self, frame: Frame) -> int:
        place = self._locations.get(frame)
        if place is None:
            place = self._locations[frame] = len(self._locations) + 1
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            self._put(4, _number(1, place) + _number(2, 1) + _bytes(4, line))
        return place

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.file, frame.first_line)
        place = self._functions.get(key)
        if place is None:
            place = self._functions[key] = len(self._functions) + 1
            name = self._string(frame.function)
            fields = (place, name, name, self._string(frame.file), frame.first_line)
            self._put(5, b"".join(_number(at, value) for at, value in enumerate(fields, 1)))
        return place


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is written as its 64-bit complement
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(_varint(value) for value in values))

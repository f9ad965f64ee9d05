"""Reads profiles back, by the rules of protocol buffers alone."""

from __future__ import annotations

import gzip
from typing import Any, NamedTuple


class Read(NamedTuple):
    """A profile with all numbers of strings, functions and locations looked up."""

    types: list[tuple[str, str]]
    samples: list[tuple[list[tuple[str, str, int, int]], list[int], dict[str, str]]]
    program: str
    time_ns: int
    duration_ns: int
    period_type: tuple[str, str]
    period: int
    default: str
    comments: list[str]

    def totals(self) -> list[int]:
        """The sum of each value over all samples."""
        columns = zip(*(values for _, values, _ in self.samples), strict=True)
        return [sum(column) for column in columns]

    def functions(self) -> set[str]:
        return {function for stack, _, _ in self.samples for function, _, _, _ in stack}


def fields(data: bytes) -> dict[int, list[Any]]:
    """All fields of a message: numbers and byte strings by field number."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        assert tag & 7 in (0, 2), "only varints and lengths are used"
        number = varint()
        if tag & 7 == 0:
            found.setdefault(tag >> 3, []).append(number)
        else:
            assert at + number <= len(data)
            found.setdefault(tag >> 3, []).append(data[at : at + number])
            at += number
    return found


def numbers(packed: bytes) -> list[int]:
    found = []
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return found


def read(profile: bytes) -> Read:
    message = fields(gzip.decompress(profile))
    strings = [text.decode() for text in message[6]]
    assert strings[0] == ""

    def one(parsed: dict[int, list[Any]], field: int) -> int:
        (value,) = parsed.get(field, [0])
        number: int = value
        return number

    def pair(data: bytes) -> tuple[str, str]:
        parsed = fields(data)
        return strings[one(parsed, 1)], strings[one(parsed, 2)]

    functions = {}
    for data in message.get(5, ()):
        parsed = fields(data)
        name, file = strings[one(parsed, 2)], strings[one(parsed, 4)]
        functions[one(parsed, 1)] = (name, file, one(parsed, 5))
    (mapping,) = (fields(data) for data in message[3])
    locations = {}
    for data in message.get(4, ()):
        parsed = fields(data)
        assert one(parsed, 2) == one(mapping, 1)
        line = fields(parsed[4][0])
        name, file, first = functions[one(line, 1)]
        locations[one(parsed, 1)] = (name, file, one(line, 2), first)
    samples = []
    for data in message.get(2, ()):
        parsed = fields(data)
        stack = [locations[place] for place in numbers(parsed[1][0])]
        labels = dict(pair(label) for label in parsed.get(3, ()))
        samples.append((stack, numbers(parsed[2][0]), labels))
    return Read(
        types=[pair(data) for data in message[1]],
        samples=samples,
        program=strings[one(mapping, 5)],
        time_ns=one(message, 9),
        duration_ns=one(message, 10),
        period_type=pair(message[11][0]) if 11 in message else ("", ""),
        period=one(message, 12),
        default=strings[one(message, 14)],
        comments=[strings[number] for number in message.get(13, ())],
    )

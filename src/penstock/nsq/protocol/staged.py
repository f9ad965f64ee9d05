"""The messages of a staged chunk: as an MPUB's, but each with a delay.

Big endian: u32 count, then for each message u32 size, u32 delay in ms, and the body.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from penstock.core.units import MILLISECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.errors import ProtocolError

_HEAD_BYTES: Final = 8
_head = struct.Struct(">II").unpack_from
_count = struct.Struct(">I").unpack_from


class Run(NamedTuple):
    """Neighbours of one delay (ns)."""

    bodies: Bodies
    delay_ns: int


def read_staged(body: bytes, max_msg_size: int, max_delay_ns: int) -> list[Run]:
    """The messages of a chunk in order. Raises ProtocolError; the text names the message."""
    if len(body) < 4:
        raise ProtocolError("BAD_BODY", "no message count")
    (count,) = _count(body)
    # No message is empty, so each takes nine bytes at least.
    if not 0 < count <= len(body) // (_HEAD_BYTES + 1):
        raise ProtocolError("BAD_BODY", f"message count {count} in {len(body)} bytes")
    return _of_one_size(body, count, max_msg_size, max_delay_ns) or _walk(
        body, count, max_msg_size, max_delay_ns
    )


@cache
def _heads() -> np.dtype[np.void]:
    """Size and delay, which stand before each body."""
    return np.dtype([("size", ">u4"), ("delay", ">u4")])


def _of_one_size(body: bytes, count: int, max_msg_size: int, max_delay_ns: int) -> list[Run]:
    """All of them if they have one size, found a column at a time; else nothing."""
    distance, rest = divmod(len(body) - 4, count)
    size = distance - _HEAD_BYTES
    if rest or not 0 < size <= max_msg_size:
        return []
    heads = np.ndarray(count, _heads(), body, 4, (distance,))
    if (heads["size"] != size).any():
        return []
    # In 64 bits: a delay of 32 bits in ms has more nanoseconds than 32 bits can hold.
    delays = heads["delay"].astype(np.int64) * MILLISECOND
    wrong = np.flatnonzero(delays > max_delay_ns)
    if len(wrong):
        raise _bad_delay(int(wrong[0]))
    borders = [0, *(np.flatnonzero(np.diff(delays)) + 1).tolist(), count]
    return [
        Run(
            Bodies.at_even_distances(
                body, 4 + first * distance + _HEAD_BYTES, distance, size, next_ - first
            ),
            int(delays[first]),
        )
        for first, next_ in pairwise(borders)
    ]


def _walk(body: bytes, count: int, max_msg_size: int, max_delay_ns: int) -> list[Run]:
    runs: list[Run] = []
    some: list[bytes] = []
    position, last, end = 4, -1, len(body)
    for index in range(count):
        if end - position < _HEAD_BYTES:
            raise ProtocolError("BAD_BODY", f"ends before message {index}")
        size, delay = _head(body, position)
        position += _HEAD_BYTES
        if not 0 < size <= max_msg_size:
            code = "MSG_TOO_BIG" if size else "MSG_EMPTY"
            raise ProtocolError(code, f"message {index} has {size} bytes, not 1 to {max_msg_size}")
        if size > end - position:
            raise ProtocolError("BAD_BODY", f"ends within message {index}")
        if delay != last:
            if delay * MILLISECOND > max_delay_ns:
                raise _bad_delay(index)
            _end_run(runs, some, last)
            some, last = [], delay
        some.append(body[position : position + size])
        position += size
    if position != end:
        raise ProtocolError("BAD_BODY", f"{end - position} bytes behind the last message")
    _end_run(runs, some, last)
    return runs


def _end_run(runs: list[Run], some: list[bytes], delay_ms: int) -> None:
    if some:
        runs.append(Run(Bodies.from_list(some), delay_ms * MILLISECOND))


def _bad_delay(index: int) -> ProtocolError:
    return ProtocolError("INVALID_DEFER", f"message {index} is deferred for longer than allowed")

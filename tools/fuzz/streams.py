"""Cutting a stream into pieces: however it comes, it must mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

BYTEWISE_MAX = 4096
"""Longer streams are not fed byte by byte: the pieces of two other sizes must do."""


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces of so many bytes."""
    return (data[start : start + size] for start in range(0, len(data), size))


def same_however_cut(data: bytes, read: Callable[[Iterator[bytes]], T]) -> T:
    """What ``read`` makes of the stream; AssertionError when that depends on how it is cut."""
    whole = read(pieces(data, max(1, len(data))))
    for size in _sizes(data):
        cut = read(pieces(data, size))
        assert cut == whole, f"in pieces of {size}: {cut!r}\nin one piece: {whole!r}"
    return whole


def _sizes(data: bytes) -> list[int]:
    odd = 2 + (sum(data[:64]) % 61)
    return [1, odd, 16 * odd] if len(data) <= BYTEWISE_MAX else [odd * 16, odd * 256]

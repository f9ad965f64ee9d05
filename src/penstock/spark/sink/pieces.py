"""Rows on their way to a node: cut, gathered and joined without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]

# The most that a head adds to a message in the body of a request.
_HEAD_BYTES = 8
_ROCKETMQ_HEAD_BYTES = 22


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of one topic; ``rows`` are their numbers in the partition, delays milliseconds.

    RocketMQ's messages have a text of properties each, and levels as delays.
    """

    bodies: pa.Array
    rows: Longs
    delays: Longs
    properties: pa.Array | None = None

    @property
    def count(self) -> int:
        """The number of messages, at least one."""
        return len(self.rows)

    def edges(self) -> Longs:
        """The start of each body in Arrow's buffer, and the end of the last one."""
        return edges(self.bodies)

    def sizes(self) -> Longs:
        """The bytes of each body."""
        return np.diff(self.edges())

    def take(self, indices: Longs) -> Piece:
        """Some of the messages."""
        found = pa.array(indices)
        texts = self.properties
        return Piece(
            self.bodies.take(found),
            self.rows[indices],
            self.delays[indices],
            None if texts is None else texts.take(found),
        )

    def slice(self, first: int, end: int) -> Piece:
        """The messages from one index up to another, without a copy."""
        texts = self.properties
        return Piece(
            self.bodies.slice(first, end - first),
            self.rows[first:end],
            self.delays[first:end],
            None if texts is None else texts.slice(first, end - first),
        )

    def halves(self) -> tuple[Piece, Piece]:
        """Two pieces of two messages or more."""
        half = self.count // 2
        return self.slice(0, half), self.slice(half, self.count)

    def where(self, partition: int) -> str:
        """The place of the messages, as errors name it."""
        first, last = int(self.rows.min()), int(self.rows.max())
        rows = f"row {first}" if first == last else f"rows {first} to {last}"
        return f"{rows} of partition {partition}"


def joined(pieces: Sequence[Piece]) -> Piece:
    """The messages of several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    texts = [piece.properties for piece in pieces if piece.properties is not None]
    return Piece(
        pa.concat_arrays([piece.bodies for piece in pieces]),
        np.concatenate([piece.rows for piece in pieces]),
        np.concatenate([piece.delays for piece in pieces]),
        pa.concat_arrays(texts) if texts else None,
    )


def cut(piece: Piece, bytes_max: int) -> Iterator[Piece]:
    """Pieces of about ``bytes_max`` and at least one message, in order."""
    ends = _ends(piece)
    first = 0
    while first < piece.count:
        end = int(np.searchsorted(ends, ends[first] + bytes_max, side="right")) - 1
        end = max(end, first + 1)
        yield piece.slice(first, end)
        first = end


def groups(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Each key and the indices that have it, in order."""
    order = np.argsort(keys, kind="stable")
    borders = np.flatnonzero(np.diff(keys[order])) + 1
    for indices in np.split(order, borders):
        yield int(keys[indices[0]]), indices


def nbytes(piece: Piece) -> int:
    """Bytes of the messages with their heads."""
    ends = _ends(piece)
    return int(ends[-1] - ends[0])


def _ends(piece: Piece) -> Longs:
    """The ends of the messages of a request, one after the other."""
    numbers = np.arange(piece.count + 1)
    if piece.properties is None:
        return piece.edges() + _HEAD_BYTES * numbers
    return piece.edges() + edges(piece.properties) + _ROCKETMQ_HEAD_BYTES * numbers


def edges(array: pa.Array) -> Longs:
    """The borders of the values of a binary or string array."""
    if not len(array):
        return np.zeros(1, np.int64)
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    offsets = np.frombuffer(array.buffers()[1], np.int64 if large else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)

"""Buffers of rows, one for each topic and delay, until they fill a request.

What is held is bounded: beyond that the largest buffer goes out as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from penstock.spark.sink.pieces import Piece, cut, joined, nbytes

_Key = TypeVar("_Key", bound=Hashable)
_HELD_REQUESTS: Final = 16
# Many topics make many small pieces; this is about what each costs by itself.
_PIECE_BYTES: Final = 1024


def in_requests(
    rows: Iterable[tuple[_Key, Piece]], request_bytes: int
) -> Iterator[tuple[_Key, Piece]]:
    """The messages of each request, which have one key."""
    buffers: RequestBuffers[_Key] = RequestBuffers(request_bytes)
    for key, piece in rows:
        yield from buffers.add(key, piece)
    yield from buffers.rest()


class RequestBuffers(Generic[_Key]):
    """Pieces under keys; what fills a request of ``request_bytes`` is given back."""

    def __init__(self, request_bytes: int) -> None:
        self._request_bytes = request_bytes
        self._buffers: dict[_Key, list[Piece]] = {}
        self._sizes: dict[_Key, int] = {}
        self._held = 0

    def add(self, key: _Key, piece: Piece) -> Iterator[tuple[_Key, Piece]]:
        """Add messages; those that are to be sent now."""
        self._put(key, piece)
        if self._sizes[key] >= self._request_bytes:
            # The last piece is the only one that has room: it waits for more rows of its key.
            *full, last = cut(self._take_down(key), self._request_bytes)
            yield from ((key, piece) for piece in full)
            self._put(key, last)
        # Many keys fill no request for long: what is held must not grow with their number.
        while self._held > _HELD_REQUESTS * self._request_bytes:
            yield from self._all_of(max(self._sizes, key=self._sizes.__getitem__))

    def rest(self) -> Iterator[tuple[_Key, Piece]]:
        """All that is left."""
        for key in list(self._buffers):
            yield from self._all_of(key)

    def _put(self, key: _Key, piece: Piece) -> None:
        size = nbytes(piece) + _PIECE_BYTES
        self._buffers.setdefault(key, []).append(piece)
        self._sizes[key] = self._sizes.get(key, 0) + size
        self._held += size

    def _take_down(self, key: _Key) -> Piece:
        self._held -= self._sizes.pop(key)
        return joined(self._buffers.pop(key))

    def _all_of(self, key: _Key) -> Iterator[tuple[_Key, Piece]]:
        for piece in cut(self._take_down(key), self._request_bytes):
            yield key, piece

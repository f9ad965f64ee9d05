"""The body of an HTTP/1 message as it arrives in pieces; no I/O.

A reader is fed until `done`; each call says how far it read, since the next request may follow.
"""

from __future__ import annotations

import re

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_MAX_LINE = 4096
_MAX_TRAILER = 16384


class BodyTooLargeError(Exception):
    """The body is longer than its limit; what came is dropped."""


class BadBodyError(Exception):
    """The chunks are not what HTTP allows."""


class SizedBody:
    """A body whose length the head told."""

    __slots__ = ("_missing", "_parts", "done")

    def __init__(self, length: int) -> None:
        self._missing = length
        self._parts: list[bytes] = []
        self.done = length == 0

    def feed(self, data: bytes, position: int) -> int:
        """Reads on from `position` and returns where it stopped."""
        part = data[position : position + self._missing]
        self._parts.append(part)
        self._missing -= len(part)
        self.done = self._missing == 0
        return position + len(part)

    def body(self) -> bytes:
        """All of the body, once `done`."""
        return b"".join(self._parts)


class ChunkedBody:
    """A body in chunks, at most `limit` bytes of it."""

    __slots__ = ("_chunk", "_in_trailer", "_limit", "_line", "_parts", "_size", "_trailer", "done")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._chunk: int | None = None  # bytes missing of the chunk, its line end counted
        self._line = b""  # an unfinished line
        self._in_trailer = False
        self._trailer = 0
        self.done = False

    def feed(self, data: bytes, position: int) -> int:
        """Reads on from `position` and returns where it stopped.

        BodyTooLargeError as soon as a chunk would pass the limit, BadBodyError for bad chunks.
        """
        while position < len(data) and not self.done:
            if self._chunk is None:
                position = self._feed_line(data, position)
            else:
                position = self._feed_chunk(data, position, self._chunk)
        return position

    def body(self) -> bytes:
        """All of the body, once `done`."""
        return b"".join(self._parts)

    def _feed_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position) + 1
        self._line += data[position : end or len(data)]
        if len(self._line) > _MAX_LINE:
            raise BadBodyError
        if not end:
            return len(data)
        line, self._line = self._line, b""
        if self._in_trailer:
            self._end_trailer_line(line)
        else:
            self._start_chunk(line)
        return end

    def _start_chunk(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadBodyError
        size = int(match[1], 16)
        if self._size + size > self._limit:
            raise BodyTooLargeError
        self._size += size
        if size:
            self._chunk = size + 2
        else:
            self._in_trailer = True

    def _end_trailer_line(self, line: bytes) -> None:
        self._trailer += len(line)
        if self._trailer > _MAX_TRAILER:
            raise BadBodyError
        self.done = line in (b"\r\n", b"\n")

    def _feed_chunk(self, data: bytes, position: int, missing: int) -> int:
        part = data[position : position + missing]
        missing -= len(part)
        # The last two bytes of a chunk are its line end.
        content = part[: len(part) - (2 - missing)] if missing < 2 else part
        if missing < 2 and part[len(content) :] not in (b"\r\n"[: 2 - missing], b"\n"):
            raise BadBodyError
        self._parts.append(content)
        self._chunk = missing or None
        return position + len(part)

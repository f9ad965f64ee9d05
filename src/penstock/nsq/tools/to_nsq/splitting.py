"""Cutting a stream into records, without I/O."""

from __future__ import annotations

from typing import Final

from penstock.nsq.tools.errors import ToolError

RECORD_BYTES_MAX: Final = 256 << 20
"""No node takes a message as long as that; so the delimiter must be missing."""


class Splitter:
    """Records that end with a delimiter of one byte; empty ones are no records."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The records that this block completes. Raises ToolError for one without end."""
        first, *others = block.split(self._delimiter)
        self._begin(first)
        if not others:
            return []
        *whole, last = others
        records = [self._take(), *whole]
        self._begin(last)
        return [record for record in records if record]

    def end(self) -> list[bytes]:
        """The record that the end of the stream completes, if there is one."""
        last = self._take()
        return [last] if last else []

    def _begin(self, part: bytes) -> None:
        self._begun_bytes += len(part)
        if self._begun_bytes > RECORD_BYTES_MAX:
            raise ToolError(f"a record is longer than {RECORD_BYTES_MAX} bytes: no delimiter?")
        if part:
            self._begun.append(part)

    def _take(self) -> bytes:
        whole = b"".join(self._begun)
        self._begun.clear()
        self._begun_bytes = 0
        return whole

"""The records that come on stdin, which may be a terminal, a pipe or a file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Final

from penstock.core.reasons import reason
from penstock.net.descriptors import read_some
from penstock.nsq.tools.errors import ToolError

BLOCK_BYTES: Final = 256 * 1024
RECORD_BYTES_MAX: Final = 256 << 20
"""No node takes a message as long as that; so the delimiter must be missing."""
# A mebibyte: a file on stdin must not move into memory while nodes are slow.
_AHEAD: Final = 4


async def records(delimiter: bytes) -> AsyncIterator[list[bytes]]:
    """The records that end with a delimiter of one byte, as many at once as have come.

    Raises ToolError.
    """
    splitter = Splitter(delimiter)
    async for block in blocks():
        if found := splitter.feed(block):
            yield found
    if found := splitter.end():
        yield found


async def blocks(descriptor: int = 0) -> AsyncIterator[bytes]:
    """The bytes that come on ``descriptor``, at most ``BLOCK_BYTES`` at once. Raises ToolError.

    They are read beside the event loop, by a thread that does not keep the process, whatever it
    waits for.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)

    def read() -> None:
        block: bytes | OSError = b"-"
        while block and not isinstance(block, OSError):
            room.acquire()
            try:
                block = read_some(descriptor, BLOCK_BYTES)
            except OSError as error:
                block = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, block)
            except RuntimeError:  # the loop has ended meanwhile
                return

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while block := await queue.get():
        if isinstance(block, OSError):
            raise ToolError(f"read /dev/stdin: {reason(block)}") from block
        yield block
        room.release()


class Splitter:
    """Records that end with a delimiter of one byte; empty ones are left out."""

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
        # Go cuts the last byte off a record without a delimiter (NSQ spec 9).
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

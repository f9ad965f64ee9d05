"""stdin in blocks, read beside the event loop: it may be a terminal, a pipe or a file."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from penstock.core.reasons import reason
from penstock.nsq.tools.errors import ToolError

BLOCK_BYTES: Final = 256 * 1024
_AHEAD: Final = 4


async def blocks(descriptor: int = 0) -> AsyncIterator[bytes]:
    """The bytes that come on ``descriptor``, at most ``BLOCK_BYTES`` at once. Raises ToolError.

    The thread that reads does not keep the process, whatever it waits for.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)

    def read() -> None:
        block: bytes | OSError = b"-"
        while block and not isinstance(block, OSError):
            room.acquire()
            try:
                block = os.read(descriptor, BLOCK_BYTES)
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

"""stdout of a tool that runs for long: whole writes, which a slow reader cannot make the loop wait
for. While ``less`` shows a page, the node still gets its heartbeats.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
from contextlib import suppress

from penstock.net.descriptors import write_all
from penstock.nsq.tools.errors import OutputClosed, writing_stdout


class Stdout:
    """A file descriptor to write to, one write at a time."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises OutputClosed, ToolError."""
        with writing_stdout():
            if self._is_file:
                write_all(self._descriptor, data)
            else:
                await self._write_beside(data)

    async def closed(self) -> None:
        """Wait until the reader has gone, as ``head`` does in the end. Raises OutputClosed."""
        if self._is_file:
            return
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()

        def watch() -> None:
            poll = select.poll()
            poll.register(self._descriptor, 0)  # errors are reported unasked
            events = poll.poll()
            with suppress(RuntimeError):  # the loop has ended meanwhile
                if any(event & select.POLLERR for _, event in events):
                    loop.call_soon_threadsafe(gone.set)

        threading.Thread(target=watch, name="reader of stdout", daemon=True).start()
        await gone.wait()
        raise OutputClosed

    async def _write_beside(self, data: bytes) -> None:
        """Write in a separate thread, which does not keep the process if the reader never reads."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def settle(error: OSError | None) -> None:
            if written.done():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        def work() -> None:
            failure = None
            try:
                write_all(self._descriptor, data)
            except OSError as error:
                failure = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, failure)

        threading.Thread(target=work, name="stdout", daemon=True).start()
        await written

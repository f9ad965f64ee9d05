"""An answer of any length whose end can be told from a loss: chunked, as fast as the client reads.

    return Download("application/x-ndjson", lines(), headers)     # from a handler

The pieces are asked for one by one, from the connection's turn on, and each only when those before
it are on their way; so a body that nobody reads takes the memory of one piece.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.net.http.server.message import Headers
from penstock.net.http.server.streaming import StreamingResponse
from penstock.net.tasks import spawn

logger = logging.getLogger("penstock.net.http.server.service")

STALL_S: Final = 60.0
"""A client that takes nothing for this time is let go."""


class Download(StreamingResponse):
    """A response whose body is what ``pieces`` gives; a PenstockError of theirs cuts it off."""

    __slots__ = ("_has_room", "_is_chunked", "_pieces", "_task")

    def __init__(
        self,
        content_type: str,
        pieces: AsyncGenerator[bytes, None],
        headers: Headers = (),
        *,
        is_chunked: bool = True,
    ) -> None:
        """Chunk the body unless the client speaks HTTP/1.0: there the connection's end ends it."""
        if is_chunked:
            headers = (*headers, ("Transfer-Encoding", "chunked"))
        super().__init__(content_type, headers, closed=self._cancel)
        self._pieces = pieces
        self._is_chunked = is_chunked
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._task: asyncio.Task[Any] | None = None

    def begin(self, transport: asyncio.Transport, date: bytes) -> None:
        super().begin(transport, date)
        self._task = spawn(self._run(transport), "download")

    def pause(self) -> None:
        self._has_room.clear()

    def resume(self) -> None:
        self._has_room.set()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, transport: asyncio.Transport) -> None:
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await self._write(transport, piece)
        except TimeoutError:
            logger.warning("a download was cut off: its client does not read")
            transport.abort()
        # Aborted, not ended: nobody may take what has come for the whole.
        except PenstockError as error:
            logger.warning("a download was cut off: %s", error)
            transport.abort()
        except Exception:
            transport.abort()
            raise
        else:
            if self._is_chunked:
                transport.write(b"0\r\n\r\n")
            transport.close()

    async def _write(self, transport: asyncio.Transport, piece: bytes) -> None:
        """Write a piece and wait until it is on its way. TimeoutError when it stays here."""
        if self._is_chunked and piece:  # an empty chunk would be the end
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        transport.write(piece)
        async with asyncio.timeout(STALL_S):
            await self._has_room.wait()
        await asyncio.sleep(0)  # others have their turn, however fast this client is

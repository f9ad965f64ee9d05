"""Connections of an HTTP client that are kept for the next request.

pool = HttpPool(connect_timeout=2.0, kept_per_origin=100)
reader = await pool.ask(
    Origin(False, "127.0.0.1", 8080), request, lambda: AnswerReader("POST", 1 << 20)
)
await pool.close()
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from functools import cache

from penstock.net.http.client.answer import AnswerReader
from penstock.net.http.client.link import HttpLink, Origin, open_link

IDLE_S_MAX = 90.0
"""A connection that was idle for longer is not used again."""
ORIGINS_MAX = 100
"""Connections to more origins than these are not kept: redirects may lead anywhere."""


class ConnectError(Exception):
    """A connection that cannot be had; ``cause`` says why, a TimeoutError too late."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class HttpPool:
    """Connections to any number of origins, of which up to ``kept_per_origin`` each stay open.

    How many requests are under way at once is up to the callers.
    """

    def __init__(
        self,
        *,
        connect_timeout: float | None,
        kept_per_origin: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        server_name: str = "",
    ) -> None:
        """Times in seconds. ``tls`` gives the context of each secure connection; without it an
        origin must show what this system trusts. ``server_name`` is the name in its certificate,
        if that is not its host's.
        """
        self._connect_timeout = connect_timeout
        self._kept_per_origin = kept_per_origin
        self._tls = tls or cache(ssl.create_default_context)
        self._server_name = server_name
        self._idle: dict[Origin, deque[tuple[HttpLink, float]]] = {}
        self._open: set[HttpLink] = set()
        self._now: Callable[[], float] = asyncio.get_running_loop().time

    async def ask(
        self,
        origin: Origin,
        request: bytes,
        new_reader: Callable[[], AnswerReader],
        *,
        may_repeat: bool = True,
    ) -> AnswerReader:
        """One exchange; a reader of ``new_reader``, which is done.

        A kept connection that ends before a byte of the answer was most likely closed meanwhile:
        the request is sent again, over a new one, if the server ``may_repeat`` it. Raises
        ConnectError; EOFError, OSError or ValueError when no usable answer comes.
        """
        link = self._take(origin)
        if link is not None:
            reader = new_reader()
            try:
                await link.ask(request, reader)
                self._keep(origin, link)
                return reader
            except (EOFError, OSError):
                if reader.began or not may_repeat:
                    raise
        link = await self.connect(origin)
        reader = new_reader()
        await link.ask(request, reader)
        self._keep(origin, link)
        return reader

    async def close(self) -> None:
        """Close all connections, those in use as well."""
        self._idle.clear()
        for link in list(self._open):
            link.abort()
        # A pass of the loop, in which the transports tell their protocols that they are gone.
        await asyncio.sleep(0)

    async def connect(self, origin: Origin) -> HttpLink:
        """A new connection, which is not kept. Raises ConnectError."""
        tls = self._tls() if origin.is_secure else None
        try:
            link = await open_link(
                origin,
                self._connect_timeout,
                tls,
                self._open.discard,
                server_name=self._server_name,
            )
        except OSError as error:
            raise ConnectError(error) from error
        self._open.add(link)
        return link

    def _take(self, origin: Origin) -> HttpLink | None:
        """The one used last, as it has most likely not been closed yet."""
        idle = self._idle.get(origin)
        while idle:
            link, since = idle.pop()
            if link.is_open and self._now() - since < IDLE_S_MAX:
                return link
            link.abort()
        return None

    def _keep(self, origin: Origin, link: HttpLink) -> None:
        if not link.is_open:
            return
        idle = self._idle.pop(origin, deque())
        self._idle[origin] = idle  # the last of the origins again
        idle.append((link, self._now()))
        if len(idle) > self._kept_per_origin:
            idle.popleft()[0].abort()
        if len(self._idle) > ORIGINS_MAX:
            for unused, _ in self._idle.pop(next(iter(self._idle))):
                unused.abort()

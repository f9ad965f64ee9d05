"""One message's way to an endpoint: connections, redirects, time-outs, and what went wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from penstock.cluster.reasons import LATE, go_reason
from penstock.core.errors import PenstockError
from penstock.core.reasons import reason
from penstock.net.address import join_host_port
from penstock.net.http.client.answer import AnswerReader
from penstock.net.http.client.link import Origin
from penstock.net.http.client.pool import ConnectError, HttpPool
from penstock.nsq.tools.to_http.hops import HOPS_MAX, Endpoint, Hop, failure
from penstock.nsq.tools.to_http.urls import BadUrl, Unusable

BODY_MAX: Final = 1 << 20
"""Bytes of an answer's body that are read, and dropped, for the connection to stay usable."""

_BROKEN: Final = "net/http: HTTP/1.x transport connection broken"


class PublishFailed(PenstockError):
    """The message has not arrived; the text is that of Go's client, with the URL."""


class Publisher:
    """A publisher to any number of endpoints, over connections that are kept."""

    def __init__(
        self,
        *,
        connect_timeout: float | None,
        request_timeout: float | None,
        kept: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Times in seconds, None for no limit; ``kept`` connections are kept to each origin."""
        self._request_timeout = request_timeout
        self._pool = HttpPool(connect_timeout=connect_timeout, kept_per_origin=kept, tls=tls)

    async def publish(self, endpoint: Endpoint, body: bytes) -> None:
        """Send a message; it has arrived when this returns. Raises PublishFailed."""
        try:
            hop = endpoint.hop(body)
        except BadUrl as error:
            raise PublishFailed(str(error)) from None
        except Unusable as error:
            method = "Post" if endpoint.is_post else "Get"
            raise PublishFailed(failure(method, endpoint.shown(body), str(error))) from None
        journey = _Journey(self._pool, hop)
        try:
            async with asyncio.timeout(self._request_timeout):
                status = await journey.follow()
        except TimeoutError:
            # A status that came in time counts, as with Go, however long the rest may take.
            if not (status := journey.last_status):
                raise journey.failed(LATE) from None
        if not endpoint.accepts(status):
            raise PublishFailed(f"got status code {status}")

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()


class _Journey:
    """One message's request, and the requests that answers send it on to."""

    def __init__(self, pool: HttpPool, hop: Hop) -> None:
        self._pool = pool
        self._hop = hop
        self._method = hop.method
        self._reader: AnswerReader | None = None

    @property
    def last_status(self) -> int:
        """The status of the answer under way; 0 without an answer, or if it sends us on."""
        status = self._reader.status if self._reader is not None else 0
        return status if status // 100 != 3 else 0

    async def follow(self) -> int:
        """The status at the end. Raises PublishFailed."""
        for _ in range(HOPS_MAX):
            reader = await self._ask()
            location = reader.headers.get("location", "") if 300 <= reader.status < 400 else ""
            onward = self._onward(reader.status, location)
            if onward is None:
                return reader.status
            self._hop = onward
        raise PublishFailed(failure(self._method, location, f"stopped after {HOPS_MAX} redirects"))

    def failed(self, why: str) -> PublishFailed:
        """An error with the URL of the request that failed, and the method of the first one."""
        return PublishFailed(failure(self._method, self._hop.url.shown, why))

    def _onward(self, status: int, location: str) -> Hop | None:
        try:
            return self._hop.next(status, location)
        except BadUrl as error:
            raise self.failed(f"failed to parse Location header {location!r}: {error}") from None
        except Unusable as error:
            raise PublishFailed(failure(self._method, location, str(error))) from None

    async def _ask(self) -> AnswerReader:
        origin = self._hop.url.origin
        try:
            return await self._pool.ask(origin, self._hop.encode(), self._new_reader)
        except ConnectError as error:
            raise self.failed(_connecting(origin, error.cause)) from None
        except EOFError:
            raise self.failed("EOF" if self._nothing_came() else "unexpected EOF") from None
        except ValueError as error:
            why = f"{_BROKEN}: {error}" if not self._nothing_came() else str(error)
            raise self.failed(why) from None
        except OSError as error:
            raise self.failed(f"read tcp {_name(origin)}: {reason(error)}") from None

    def _new_reader(self) -> AnswerReader:
        self._reader = AnswerReader(self._hop.method, BODY_MAX, discard=True)
        return self._reader

    def _nothing_came(self) -> bool:
        return self._reader is None or not self._reader.began


def _connecting(origin: Origin, error: OSError) -> str:
    if isinstance(error, ConnectionAbortedError):
        return "net/http: TLS handshake timeout"
    return go_reason(error, _name(origin), connecting=True)


def _name(origin: Origin) -> str:
    return join_host_port(origin.host, origin.port)

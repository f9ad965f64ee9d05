"""Asking daemons on an event loop: kept connections, and HTTPS where it is wanted.

A daemon is somebody else's program, perhaps another version, perhaps none of NSQ's at all. Whatever
it does becomes an UpstreamError with one line: it is never anybody's traceback.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from penstock.cluster.access import Access
from penstock.cluster.exchange import ACCEPT, PROBE, Endpoint, Timeouts, https_port
from penstock.cluster.reasons import reason_of
from penstock.cluster.upstream_errors import (
    GO,
    ErrorWording,
    RefusedError,
    SentRequest,
    UnexpectedError,
    UnreachableError,
)
from penstock.core.malformed import MALFORMED
from penstock.net.http.client.answer import Answer, AnswerReader, request_head
from penstock.net.http.client.link import Origin
from penstock.net.http.client.pool import ConnectError, HttpPool

T = TypeVar("T")

ANSWER_MAX: Final = 64 << 20
"""Bytes of an answer; 1,000 topics of 10 channels take about 5 MB."""
AT_ONCE: Final = 64
"""Requests under way at the same time, whatever their number."""
_KEPT: Final = 2
_POSITION: Final = re.compile(r" \(byte \d+\)| - at `.*")


class _Wrapped(msgspec.Struct):
    """An answer as daemons before 1.0 gave it."""

    data: msgspec.Raw = msgspec.Raw()


class HttpClient:
    """An asynchronous HTTP client of daemons; to be made inside the loop, and closed.

    An address is ``host:port``, or a URL without a path. ``agent`` is the name that the client
    gives itself, ``wording`` that of its errors; ``tls`` is for those who have made the context of
    ``access`` already.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        agent: str,
        access: Access | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        wording: ErrorWording = GO,
    ) -> None:
        self._seconds = timeouts.request
        self._access = access or Access()
        self._fields = {"User-Agent": agent, "Accept": ACCEPT}
        self._wording = wording
        self._pool = HttpPool(
            connect_timeout=timeouts.connect,
            kept_per_origin=_KEPT,
            tls=tls or (self._access.renewed_context() if self._access.concerns_tls else None),
            server_name=self._access.server_name,
        )
        self._room = asyncio.Semaphore(AT_ONCE)
        self._known: dict[str, Endpoint] = {}

    async def get(self, address: str, target: str, kind: type[T]) -> T:
        """The JSON at ``target`` (path and query) as a ``kind``. Raises UpstreamError."""
        return await self.get_as(address, target, lambda body: kind)

    async def get_as(self, address: str, target: str, kind_of: Callable[[bytes], type[T]]) -> T:
        """The JSON at ``target`` as a kind that the body decides. Raises UpstreamError."""
        return self._read(*await self._asked("GET", address, target), kind_of)

    async def get_bytes(self, address: str, target: str) -> bytes:
        """The body at ``target`` as it is. Raises UpstreamError."""
        return (await self._asked("GET", address, target))[1].body

    async def post(self, address: str, target: str, body: bytes = b"") -> None:
        """Post to a daemon, with a body or without. Raises UpstreamError."""
        await self._asked("POST", address, target, body)

    async def post_as(self, address: str, target: str, body: bytes, kind: type[T]) -> T:
        """Post a body to a daemon, which answers a ``kind``. Raises UpstreamError."""
        return self._read(*await self._asked("POST", address, target, body), lambda _: kind)

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        await self._pool.close()

    async def _asked(
        self, method: str, address: str, target: str, content: bytes = b""
    ) -> tuple[SentRequest, Answer]:
        """The request that was answered 200 in the end, and what."""
        try:
            return await self._asked_there(method, address, target, content)
        except UnreachableError:
            self._known.pop(address, None)  # it may come back without TLS, or at another port
            raise

    async def _asked_there(
        self, method: str, address: str, target: str, content: bytes
    ) -> tuple[SentRequest, Answer]:
        async with self._room:
            asked = SentRequest(method, await self._endpoint(address), target)
            answer = await self._exchange(asked, content, self._access.headers)
            # A node that insists on TLS names its HTTPS port in the refusal. POSTs are sent there
            # as well, as nothing was done (NSQ spec 5.1).
            port = 0 if asked.endpoint.is_secure else https_port(answer.status, answer.body)
            if port:
                asked = asked._replace(endpoint=asked.endpoint.secure(port))
                answer = await self._exchange(asked, content, self._access.headers)
        if answer.status != 200:
            raise RefusedError(self._wording, asked, answer.status, answer.body)
        return asked, answer

    async def _endpoint(self, address: str) -> Endpoint:
        """The endpoint to ask. With a secret or TLS a node is first asked for its HTTPS port."""
        access = self._access
        if "://" in address or not (access.tls or access.auth_secret):
            # Without TLS and secret a node is simply asked; a refusal names the port.
            return Endpoint.of(address)
        known = self._known.get(address)
        if known is None:
            asked = SentRequest("GET", Endpoint.of(address), PROBE)
            # Without headers: the secret must not go to just any port in the clear.
            answer = await self._exchange(asked, b"", {})
            port = https_port(answer.status, answer.body) or (access.https_port * access.tls)
            known = self._known[address] = asked.endpoint.secure(port) if port else asked.endpoint
        return known

    async def _exchange(
        self, asked: SentRequest, content: bytes, headers: dict[str, str]
    ) -> Answer:
        endpoint = asked.endpoint
        try:
            host, port = endpoint.host_and_port()
            fields = {"Host": endpoint.address, **self._fields, **endpoint.headers, **headers}
            if asked.method == "POST":
                fields["Content-Length"] = str(len(content))
            head = request_head(asked.method, endpoint.path + asked.target, fields)
            async with asyncio.timeout(self._seconds):
                reader = await self._pool.ask(
                    Origin(endpoint.is_secure, host, port),
                    head + content,
                    lambda: AnswerReader(asked.method, ANSWER_MAX),
                    # A POST may have been done although the connection ended before its answer.
                    may_repeat=asked.method == "GET",
                )
            return reader.answer()
        except (ConnectError, OSError, EOFError, ValueError) as error:
            connecting = isinstance(error, ConnectError)
            cause = error.cause if isinstance(error, ConnectError) else error
            reason = reason_of(cause, endpoint.address, connecting=connecting)
            raise UnreachableError(self._wording, asked, reason) from cause

    def _read(self, asked: SentRequest, answer: Answer, kind_of: Callable[[bytes], type[T]]) -> T:
        """The JSON of an answer as a kind that is chosen by it. Raises UnexpectedError."""
        try:
            body = _unwrapped(answer)
            return _decoder(kind_of(body)).decode(body)
        except MALFORMED as error:
            words = _POSITION.sub("", str(error))
            raise UnexpectedError(self._wording, asked, words) from error


def _unwrapped(answer: Answer) -> bytes:
    """The JSON proper; daemons before 1.0 wrapped it."""
    if "x-nsq-content-type" in answer.headers:
        return answer.body
    data = bytes(msgspec.json.decode(answer.body, type=_Wrapped).data)
    return answer.body if data in (b"", b"null") else data


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found

"""One request to one daemon: kept connections, HTTPS where it is wanted, Go's words for failures.

A daemon is somebody else's program, perhaps another version, perhaps none of NSQ's at all. Whatever
it does becomes an UpstreamError with one line: it is never anybody's traceback.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.malformed import MALFORMED
from penstock.core.quote import quote
from penstock.net.address import join_host_port
from penstock.net.http_answer import Answer, AnswerReader, request_head
from penstock.net.http_link import Origin
from penstock.net.http_pool import ConnectFailed, HttpPool
from penstock.net.tls import go_words
from penstock.nsq.client.dial import dial_reason
from penstock.nsq.http_query import ACCEPT, LATE, Timeouts, status_text
from penstock.nsq.version import NSQ_VERSION

T = TypeVar("T")

ANSWER_MAX: Final = 64 << 20
"""Bytes of an answer; 1,000 topics of 10 channels take about 5 MB."""
QUOTED_MAX: Final = 1024
"""Bytes of an answer that are repeated in an error."""
AT_ONCE: Final = 64
"""Requests under way at the same time, whatever their number."""
_KEPT: Final = 2
_POSITION: Final = re.compile(r" \(byte \d+\)| - at `.*")


class UpstreamError(PenstockError):
    """A daemon could not be asked, or gave no usable answer; the text is Go's where it has one."""


class RefusedError(UpstreamError):
    """A daemon answered, with another status than 200; ``code`` is NSQ's, empty when none came."""

    def __init__(self, answer: Answer) -> None:
        said = quote(answer.body[:QUOTED_MAX])
        super().__init__(f"got response {status_text(answer.status)} {said}")
        self.status = answer.status
        self.code = _refusal(answer.body).message


class _Refusal(msgspec.Struct):
    """The answer of an nsqd that refuses; the port when it is to be spoken to over HTTPS."""

    message: str = ""
    https_port: int = 0


class _Wrapped(msgspec.Struct):
    """An answer as daemons before 1.0 gave it."""

    data: msgspec.Raw = msgspec.Raw()


class Asker:
    """Asks daemons at `host:port` over HTTP; to be made inside the loop, and closed."""

    def __init__(self, timeouts: Timeouts, tls: ssl.SSLContext | None = None) -> None:
        self._seconds = timeouts.request
        self._pool = HttpPool(connect_timeout=timeouts.connect, kept_per_origin=_KEPT, tls=tls)
        self._room = asyncio.Semaphore(AT_ONCE)

    async def get(self, address: str, target: str, kind: type[T]) -> T:
        """The JSON at `target` (path and query) as a `kind`. Raises UpstreamError."""
        return await self.get_as(address, target, lambda body: kind)

    async def get_as(self, address: str, target: str, kind_of: Callable[[bytes], type[T]]) -> T:
        """The JSON at `target` as a kind that the body decides. Raises UpstreamError."""
        url, answer = await self._asked("GET", address, target)
        return _read("Get", url, answer, kind_of)

    async def get_bytes(self, address: str, target: str) -> bytes:
        """The body at `target` as it is. Raises UpstreamError."""
        return (await self._asked("GET", address, target))[1].body

    async def post(self, address: str, target: str) -> None:
        """Has a daemon do something. Raises UpstreamError."""
        await self._asked("POST", address, target)

    async def post_as(self, address: str, target: str, body: bytes, kind: type[T]) -> T:
        """Has a daemon do something with a body, and answer a `kind`. Raises UpstreamError."""
        url, answer = await self._asked("POST", address, target, body)
        return _read("Post", url, answer, lambda _: kind)

    async def close(self) -> None:
        """End all connections."""
        await self._pool.close()

    async def _asked(
        self, method: str, address: str, target: str, content: bytes = b""
    ) -> tuple[str, Answer]:
        """The URL that answered 200 in the end, and what."""
        async with self._room:
            url, answer = await self._exchange(method, "http", address, target, content)
            if answer.status == 403 and (port := _https_port(answer.body)):
                secure = join_host_port(_host_and_port(address)[0], port)
                url, answer = await self._exchange(method, "https", secure, target, content)
        if answer.status != 200:
            raise RefusedError(answer)
        return url, answer

    async def _exchange(
        self, method: str, scheme: str, address: str, target: str, content: bytes
    ) -> tuple[str, Answer]:
        url = f"{scheme}://{address}{target}"
        what = f"{method.title()} {quote(url)}: "
        try:
            host, port = _host_and_port(address)
            head = request_head(method, target, _fields(method, address, len(content)))
            async with asyncio.timeout(self._seconds):
                reader = await self._pool.ask(
                    Origin(scheme == "https", host, port),
                    head + content,
                    lambda: AnswerReader(method, ANSWER_MAX),
                )
            return url, reader.answer()
        except ConnectFailed as error:
            raise UpstreamError(what + _no_connection(address, error.cause)) from error
        except TimeoutError:
            raise UpstreamError(what + LATE) from None
        except EOFError:
            raise UpstreamError(what + "EOF") from None
        except ssl.SSLError as error:
            raise UpstreamError(what + go_words(error)) from error
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise UpstreamError(f"{what}read tcp {address}: {text}") from error
        except ValueError as error:
            raise UpstreamError(what + str(error)) from error


def escaped(name: str) -> str:
    """A value as a query has it: `#` is `%23`."""
    return quote_plus(name)


def _fields(method: str, address: str, length: int) -> dict[str, str]:
    fields = {"Host": address, "User-Agent": f"nsqadmin/{NSQ_VERSION}", "Accept": ACCEPT}
    if method == "POST":
        fields["Content-Length"] = str(length)
    return fields


def _read(what: str, url: str, answer: Answer, kind_of: Callable[[bytes], type[T]]) -> T:
    """The JSON of an answer as a kind that is chosen by it. Raises UpstreamError."""
    try:
        body = _unwrapped(answer)
        return _decoder(kind_of(body)).decode(body)
    except MALFORMED as error:
        words = _POSITION.sub("", str(error))
        raise UpstreamError(f"{what} {quote(url)}: the answer is not what is expected: {words}"
                            ) from error  # fmt: skip


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


def _https_port(refusal: bytes) -> int:
    port = _refusal(refusal).https_port
    return port if 0 < port < 65536 else 0


def _refusal(body: bytes) -> _Refusal:
    try:
        return msgspec.json.decode(body, type=_Refusal)
    except MALFORMED:
        return _Refusal()


def _host_and_port(address: str) -> tuple[str, int]:
    """Also of addresses whose port has a name. Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        import socket

        try:
            return host.strip("[]"), socket.getservbyname(port)
        except OSError:
            raise ValueError(f"address {address}: no such port") from None
    return host.strip("[]") or "localhost", int(port)


def _no_connection(address: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return go_words(error)
    return dial_reason(address, error)

"""Requests and responses of the HTTP server, and a response's bytes in the order Go writes them."""

from __future__ import annotations

from collections.abc import Callable
from time import gmtime
from typing import Any, Final

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.http.reasons import REASONS
from penstock.net.http.server.head import Head

Headers = tuple[tuple[str, str], ...]
SMALL: Final = 256
"""Bytes of a body that is joined with its head at once, and so can be sent again as it is."""
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip


class Request(Struct, eq=False):
    """One request with its whole body."""

    head: Head
    param: str
    """The text at the place of ``:name`` in the route's path."""
    body: bytes
    _remote: Callable[[], str]
    begun: Any = None
    """The result of the route's ``begin``, if the head came before the body was complete."""

    @property
    def method(self) -> str:
        return self.head.method

    @property
    def path(self) -> str:
        """The decoded path."""
        return self.head.path

    @property
    def raw_path(self) -> str:
        return self.head.raw_path

    @property
    def query(self) -> bytes:
        """The text after ``?``, as it came."""
        return self.head.query

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The header fields by name in lower case."""
        return self.head.headers

    @property
    def remote(self) -> str:
        """The client's address, ``host:port``."""
        return self._remote()


class Response:
    """A handler's answer; one that never changes may be made once and returned every time."""

    __slots__ = ("body", "content_type", "date", "headers", "size", "start", "status", "tail",
                 "whole")  # fmt: skip

    def __init__(
        self,
        status: int = 200,
        body: bytes | memoryview | list[bytes | memoryview] = b"",
        content_type: str | None = None,
        headers: Headers = (),
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.start: bytes | None = None  # status line and headers before the date, once encoded
        self.size = 0  # of the body in bytes, once encoded
        self.tail = b""  # the headers after the date, without the last line end
        self.date: bytes | None = None  # the date line in `whole`
        self.whole: list[bytes | memoryview] = []
        """All of it, as the last usual request was answered; kept when it is small."""

    def body_size(self) -> int:
        """Bytes of the body."""
        body = self.body
        return sum(map(len, body)) if isinstance(body, list) else len(body)


class Bare(Response):
    """An answer to no request in particular: these bytes, and nothing that HTTP puts around."""

    __slots__ = ("raw",)

    def __init__(self, status: int, raw: bytes) -> None:
        super().__init__(status)
        self.raw = raw


def text(body: str, status: int = 200) -> Response:
    """A plain text response; what was not UTF-8 when it was read goes back as it came."""
    return Response(status, body.encode("utf-8", "surrogateescape"), "text/plain; charset=utf-8")


class DateLine:
    """The Date header, made once a second."""

    __slots__ = ("_clock", "_line", "_second")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._line = b""

    def __call__(self) -> bytes:
        second = self._clock.wall_ns() // SECOND
        if second != self._second:
            self._second = second
            self._line = _date_line(second)
        return self._line


def _date_line(second: int) -> bytes:
    # As email.utils.formatdate, whose import takes a tenth of a daemon's start.
    at = gmtime(second)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"Date: {day}, {at.tm_mday:02} {month} {at.tm_year:04} {clock} GMT\r\n".encode()


def encode(response: Response, head: Head, date: bytes) -> list[bytes | memoryview]:
    """The bytes, as pieces to write, of the response to the request with this head."""
    is_usual = head.keep_alive and not head.is_http10 and head.method != "HEAD"
    if is_usual and response.date is date:
        return response.whole
    pieces = _pieces(response, head, date)
    if is_usual and response.size <= SMALL:
        response.date = date
        response.whole = pieces = [b"".join(pieces)]
    return pieces


def _pieces(response: Response, head: Head, date: bytes) -> list[bytes | memoryview]:
    if response.start is None:
        _prepare(response)
    start = response.start
    assert start is not None
    if head.is_http10:
        start = start.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        ending = b"\r\nConnection: keep-alive\r\n\r\n" if head.keep_alive else b"\r\n\r\n"
    else:
        ending = b"\r\n\r\n" if head.keep_alive else b"\r\nConnection: close\r\n\r\n"
    pieces: list[bytes | memoryview] = [start, date, response.tail, ending]
    if head.method != "HEAD":
        if isinstance(response.body, list):
            pieces += response.body
        else:
            pieces.append(response.body)
    return pieces


def _prepare(response: Response) -> None:
    lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Unknown')}\r\n"]
    # Go's order, which tests compare: a handler's headers by name, then Date, Content-Length,
    # Content-Type and Connection (net/http/server.go, extraHeader).
    lines += [f"{name}: {value}\r\n" for name, value in sorted(response.headers)]
    response.start = "".join(lines).encode("latin-1", "replace")
    response.size = response.body_size()
    tail = f"Content-Length: {response.size}"
    if response.content_type:
        tail += f"\r\nContent-Type: {response.content_type}"
    response.tail = tail.encode("latin-1")

"""Requests out of the bytes of one connection, by ``httptools``; no I/O.

What it finds stands in ``events``, in the order in which it must be answered. A request that cannot
be served (too long, broken, stalled) becomes an answer there, and is the last that is read.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools

from penstock.net.http.server.guard import FORWARDED_HOST
from penstock.net.http.server.head import BadRequestError, HeadReader, bad_line
from penstock.net.http.server.known_heads import HEAD_END, LONGEST, Known
from penstock.net.http.server.message import Bare, Request, Response
from penstock.net.http.server.route import Route
from penstock.net.http.server.router import Router

MAX_HEAD = 64 * 1024
"""Bytes of a head, a chunk's line or a trailer, as a defence; Go allows a head of 1 MiB."""
_PARTS_MAX = 256
"""Pieces of a body that are kept apart: a tiny one costs many times its bytes."""
_NOT_KEPT = frozenset((b"transfer-encoding", FORWARDED_HOST))
"""Headers of which more counts than their bytes, so that a request with one is not remembered."""
CONTINUE = Bare(100, b"HTTP/1.1 100 Continue\r\n\r\n")

Event = tuple[Request, Route] | Bare
"""A request and who answers it, or what is to be said without a request."""


class _Stop(Exception):
    """The signal that ends the parsing after a refusal."""


class RequestReader(HeadReader):
    """A parser of requests whose bodies keep to the limits of their routes."""

    __slots__ = ("_parts", "_remote", "_request", "_route", "_router", "_unread", "count",
                 "ended", "events", "size", "unfinished")  # fmt: skip

    def __init__(self, router: Router, remote: Callable[[], str]) -> None:
        super().__init__()
        self._router = router
        self._remote = remote
        self._route: Route
        self._request: Request | None = None  # whose body is being read
        self._parts: list[bytes | bytearray] = []
        self._unread = 0  # bytes since a body's last one that were neither body nor a whole request
        self.events: list[Event] = []
        self.ended = False
        """True once nothing is read any more."""
        self.unfinished = False
        """A request has begun and is not complete."""
        self.count = 0
        """Requests begun."""
        self.size = 0
        """Bytes of the present request's body that have come."""

    def feed(self, data: bytes) -> None:
        """Read on; whatever is wrong with ``data`` shows in ``events``."""
        if self.ended:
            return
        is_start = not self.unfinished
        if is_start:
            data = self._take_known(data)
            if not data:
                return
        before = len(self.events)
        self._unread += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            self._fail(error, data)
        if is_start and len(self.events) == before + 1:
            self._learn(data)
        if self._unread > MAX_HEAD and self.unfinished:
            self._refuse_raw("431 Request Header Fields Too Large")

    def end(self) -> None:
        """The client sends no more; a request it has not finished is refused."""
        if self.unfinished:
            self._refuse_unread()
        self.ended = True

    def close(self) -> None:
        """Forget everything; this also undoes the cycle of the parser and its callbacks."""
        self.ended = True
        self.unfinished = False
        self.events.clear()
        self._request = None
        del self._parser, self._remote

    def begin(self) -> None:
        """Call the route's ``begin`` for a request whose head has come without its whole body."""
        request = self._request
        if request is not None and request.begun is None and self._route.begin is not None:
            request.begun = self._route.begin(request)

    def give_up(self) -> None:
        """Refuse a request that does not come to its end."""
        self._refuse_raw("408 Request Timeout")

    def refuse(self, response: Response) -> None:
        """Answer the request whose body is being read, and stop reading."""
        self._refuse(response)

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self.unfinished = True
        self.count += 1
        self.size = 0

    def on_headers_complete(self) -> None:
        HeadReader.on_headers_complete(self)  # not super(), which costs 0.1 us
        head = self.head
        if self._parser.should_upgrade():
            if head.method == "CONNECT":
                # A proxy's method, and this is not one.
                raise BadRequestError
            return
        self._route, param = self._router.resolve(head.method, head.path, head.query)
        self._request = Request(head, param, b"", self._remote)
        why = self._router.guard.refusal(head, self._remote, is_safe=self._route.is_safe)
        if why:
            self._refuse(self._router.pages.forbidden(why))
            raise _Stop
        headers = head.headers
        if b"content-length" in headers:
            if int(headers[b"content-length"]) > self._route.max_body:
                # By the head alone: a client that waits for 100 need not send the body at all.
                self._refuse_too_large()
        elif b"transfer-encoding" in headers:
            is_one = b"transfer-encoding" not in head.repeated
            if headers[b"transfer-encoding"].strip().lower() != b"chunked" or not is_one:
                raise BadRequestError("501 Not Implemented: unsupported transfer encoding")
            self._headers = {}  # trailers go there, and are not looked at
        if b"expect" in headers:
            if headers[b"expect"].strip().lower() != b"100-continue":
                raise BadRequestError("417 Expectation Failed")
            if not head.is_http10:
                # Answered before the body is there, as the client waits for it.
                self.events.append(CONTINUE)

    def on_body(self, part: bytes) -> None:
        # What the limit of a head is for goes on without a body, or behind it in trailers.
        self._unread = 0
        self.size += len(part)
        if self.size > self._route.max_body:
            self._refuse_too_large()
        self._parts.append(part)
        if len(self._parts) >= _PARTS_MAX:
            self._gather()

    def on_message_complete(self) -> None:
        self._target = b""
        self._headers = {}
        request = self._request
        if request is None:  # this head comes again, without its upgrade
            return
        del self.head  # an idle connection keeps nothing of its last request
        self._repeated.clear()
        if self._parts:
            request.body = b"".join(self._parts)
            self._parts.clear()
        self.events.append((request, self._route))
        self._request = None
        self._unread = 0
        self.unfinished = False
        self.ended = not request.head.keep_alive

    # -- requests like others before

    def _take_known(self, data: bytes) -> bytes:
        """Take the whole requests at the start whose heads are known, and return the rest.

        The parser does not see them: it stands between two requests, before and after.
        """
        find, length, start = self._router.known.find, len(data), 0
        while start < length:
            end = data.find(HEAD_END, start, start + LONGEST) + len(HEAD_END)
            known = find(data[start:end])
            if known is None:
                break
            head, route, param, body_size, _ = known
            if end + body_size > length:
                break
            start = end + body_size
            request = Request(head, param, data[end:start], self._remote)
            self.events.append((request, route))
            self.count += 1
        return data[start:]

    def _learn(self, data: bytes) -> None:
        """``data`` brought one event; if it was a request and no more, its head is known now."""
        event = self.events[-1]
        if self.unfinished or self.ended or isinstance(event, Bare):
            return
        request, route = event
        if _NOT_KEPT.isdisjoint(request.headers):
            topic = None if route.plain is None else route.plain.topic(request)
            known = Known(request.head, route, request.param, len(request.body), topic)
            self._router.known.learn(data, known)

    # -- what is out of the ordinary

    def _gather(self) -> None:
        """Make one piece of many; it grows in place, so that no byte is copied again and again."""
        first, *rest = self._parts
        whole = first if isinstance(first, bytearray) else bytearray(first)
        whole += b"".join(rest)
        self._parts[:] = [whole]

    def _feed(self, data: bytes | memoryview) -> None:
        """Feed the parser, which stops where a client would like to speak another protocol.

        Java's client asks for HTTP/2 on every connection. As RFC 9110 lets a server, we do not
        hear that; but the parser has to be given the head again to read on in HTTP/1.
        """
        while True:
            try:
                return self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = memoryview(data)[upgrade.args[0] :]
                self._parser.feed_data(self.head.without_upgrade())

    def _fail(self, error: httptools.HttpParserError, data: bytes) -> None:
        if self.ended:
            return
        if isinstance(error, httptools.HttpParserCallbackError):
            # httptools wraps what a callback raises, and keeps it as the context.
            if not isinstance(error.__context__, BadRequestError):
                raise error
            self._refuse_raw(error.__context__.status)
        elif self._request is not None:
            self._refuse_unread()
        # Go answers what is not HTTP when a line of it is there; the parser repeats its error.
        elif b"\n" in data:
            self._refuse_raw(bad_line(self._parser.get_http_version()).status)

    def _refuse_too_large(self) -> None:
        self._refuse(self._route.too_large)
        raise _Stop

    def _refuse_unread(self) -> None:
        """Refuse a body that cannot be read to its end, or a head."""
        if self._request is None:
            self._refuse_raw("400 Bad Request")
        else:
            self._refuse(self._router.pages.internal_error())

    def _refuse(self, response: Response) -> None:
        request = self._request
        assert request is not None
        request.head.keep_alive = False
        route = Route(lambda request: response, 0, response, quiet=self._route.quiet)
        self._end_with((request, route))

    def _refuse_raw(self, status: str) -> None:
        """Refuse what is not a request, as Go does: with a bare head without date or length."""
        raw = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Connection: close\r\n\r\n{status}"
        ).encode()
        self._end_with(Bare(int(status[:3]), raw))

    def _end_with(self, event: Event) -> None:
        self.events.append(event)
        self._request = None
        self._parts.clear()
        self.unfinished = False
        self.ended = True

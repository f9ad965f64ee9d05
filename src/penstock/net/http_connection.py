"""One client's connection to the HTTP server, on a plain asyncio protocol.

Publishing over HTTP is a hot path, so a small request costs one look-up of its head's bytes (what
was parsed once is kept), one slice for the body, one call of the handler, and its part of one write
per read. A handler returns a `Response`; or a `Later` or an awaitable, and the answers still leave
in the order of their requests.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.units import format_duration
from penstock.net.address import show_address
from penstock.net.http_body import BadBodyError, BodyTooLargeError, ChunkedBody, SizedBody
from penstock.net.http_head import BadRequest, Head, check_request_line
from penstock.net.http_message import Later, Request, Response, encode
from penstock.net.http_router import Route
from penstock.net.tasks import spawn

if TYPE_CHECKING:
    from penstock.net.http import HttpServer

MAX_HEAD = 64 * 1024
"""Bytes of a request's head, as a defence; Go allows 1 MiB."""
MAX_PIPELINED = 64
"""Requests of one connection that may wait for their answers before reading pauses."""
LINGER_S = 0.5
"""How long the rest of a refused request is read away, so that its sender sees the answer."""
_FLUSH_PIECES = 512
_FLUSH_BYTES = 16 * 1024

_TOO_LONG = "431 Request Header Fields Too Large"
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class Plan(NamedTuple):
    """What is to be done with every request that has this head."""

    head: Head
    route: Route
    param: str


class _Slot:
    """The place of one answer among those of its connection."""

    __slots__ = ("close", "later", "plan", "started")

    def __init__(self, later: Later, plan: Plan, started: int, close: bool) -> None:
        self.later = later
        self.plan = plan
        self.started = started
        self.close = close


class Connection(asyncio.Protocol):
    """Reads requests, has them handled, writes the answers in order."""

    __slots__ = (
        "_body",
        "_closing",
        "_eof",
        "_out",
        "_paused",
        "_peer",
        "_plan",
        "_rest",
        "_server",
        "_slots",
        "_transport",
        "_write_blocked",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._peer = ""
        self._rest = bytearray()  # received, not yet looked at or not yet a whole head
        self._plan: Plan | None = None  # of the request whose body is being read
        self._body: SizedBody | ChunkedBody | None = None
        self._slots: deque[_Slot] = deque()
        self._out: list[bytes | memoryview] = []
        self._closing = False  # no request is read any more
        self._paused = False
        self._write_blocked = False
        self._eof = False

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's is always one
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._slots.clear()
        self._rest.clear()
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        rest = self._rest
        if rest:
            seen = len(rest)
            rest += data
            if self._paused or (self._body is None and not self._may_have_head(seen)):
                return
            data = bytes(rest)
            rest.clear()
        self._consume(data)
        self._flush()

    def eof_received(self) -> bool:
        self._eof = True
        if self._closing:
            return False
        if self._body is not None:
            plan, self._plan, self._body = self._plan, None, None
            assert plan is not None
            self._refuse(self._server.router.pages.internal_error(), plan)
        elif self._rest and not self._paused:
            self._bad_request(BadRequest())
        self._flush()
        return bool(self._slots) or self._paused

    def pause_writing(self) -> None:
        self._write_blocked = True
        self._pause_if_needed()

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._resume_if_possible()

    def close(self) -> None:
        """Ends the connection after what was written."""
        self._closing = True
        self._transport.close()

    # -- reading requests

    def _may_have_head(self, seen: int) -> bool:
        """Whether bytes after the first `seen` may have completed a line or the head."""
        return self._rest.find(b"\n", max(0, seen - 3)) >= 0 or len(self._rest) > MAX_HEAD

    def _consume(self, data: bytes) -> None:
        """Handles every whole request in `data` and keeps what is left."""
        position, size = 0, len(data)
        try:
            while position < size and not self._closing:
                if self._paused:
                    self._rest += data[position:]
                    return
                if self._body is not None:
                    position = self._feed_body(data, position)
                else:
                    position = self._read_request(data, position)
                    if position < 0:
                        return
        except BadRequest as error:
            self._bad_request(error)

    def _read_request(self, data: bytes, position: int) -> int:
        """Handles the request at `position` as far as it is there; -1 when its head is not."""
        end = data.find(b"\r\n\r\n", position) + 4
        raw = data[position:end] if end > 3 else b""
        plan = self._server.plans.get(raw)
        if plan is None:
            plan, end = self._parse(data, position, raw)
            if plan is None:
                return -1
        head = plan.head
        if head.length > plan.route.max_body:
            self._refuse(plan.route.too_large, plan)
            return len(data)
        stop = end + head.length
        if not head.chunked and not head.expects_continue and stop <= len(data):
            self._dispatch(plan, data[end:stop] if head.length else b"")
            return stop
        self._start_body(plan)
        return end

    def _parse(self, data: bytes, position: int, raw: bytes) -> tuple[Plan | None, int]:
        """The plan of a head not met before and the position after it; keeps a partial head.

        `raw` is what ends with the first empty line as it should be written, or empty.
        """
        end = position + len(raw)
        if not raw or raw.count(b"\n") != raw.count(b"\r\n"):
            # Like Go, take lines that end with a bare line feed too.
            match = _HEAD_END.search(data, position)
            if match is None:
                self._keep_partial(data[position:])
                return None, 0
            end = match.end()
            raw = data[position:end].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        if len(raw) > MAX_HEAD:
            raise BadRequest(_TOO_LONG)
        return self._server.plan(raw), end

    def _keep_partial(self, data: bytes) -> None:
        """Keeps an unfinished head, if its first line is one and it is not too long."""
        line, newline, _ = data.partition(b"\n")
        if newline:
            check_request_line(line.removesuffix(b"\r"))
        if len(data) > MAX_HEAD:
            raise BadRequest(_TOO_LONG)
        self._rest += data

    def _start_body(self, plan: Plan) -> None:
        head = plan.head
        self._plan = plan
        self._body = ChunkedBody(plan.route.max_body) if head.chunked else SizedBody(head.length)
        if head.expects_continue and not self._slots:
            self._out.append(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._body.done:
            self._end_body()

    def _feed_body(self, data: bytes, position: int) -> int:
        assert self._body is not None
        assert self._plan is not None
        try:
            position = self._body.feed(data, position)
        except BodyTooLargeError:
            self._refuse(self._plan.route.too_large, self._plan)
            return len(data)
        except BadBodyError:
            self._refuse(self._server.router.pages.internal_error(), self._plan)
            return len(data)
        if self._body.done:
            self._end_body()
        return position

    def _end_body(self) -> None:
        plan, body = self._plan, self._body
        assert plan is not None
        assert body is not None
        self._plan = self._body = None
        self._dispatch(plan, body.body())

    # -- answering

    def _dispatch(self, plan: Plan, body: bytes) -> None:
        """Hands a request to its handler and queues or writes what it answers."""
        head, route, param = plan
        started = 0 if route.quiet else self._server.clock.monotonic_ns()
        try:
            answer = route.handler(Request(head, param, body, self._remote))
        except Exception:
            answer = self._crash(head)
        close = not head.keep_alive
        if close:
            self._closing = True
        if type(answer) is Response:
            if not self._slots:
                self._write(answer, plan, started, close)
                return
            later = Later()
            later.response = answer
        else:
            later = answer if isinstance(answer, Later) else self._await(answer, head)
        self._slots.append(_Slot(later, plan, started, close))
        if later.response is None or self._slots[0].later is later:
            later.when_ready(self._settle)
        self._pause_if_needed()

    def _await(self, answer: object, head: Head) -> Later:
        """The answer of a handler that returned a future or a coroutine."""
        later = Later()
        if not inspect.isawaitable(answer):
            later.response = self._crash(head)
        elif isinstance(answer, asyncio.Future) and answer.done():
            later.response = self._result(answer, head)
        else:
            task = answer if isinstance(answer, asyncio.Future) else spawn(_run(answer), "http")
            task.add_done_callback(lambda done: later.complete(self._result(done, head)))
        return later

    def _result(self, done: asyncio.Future[Response], head: Head) -> Response:
        if not done.cancelled() and done.exception() is None:
            return done.result()
        error = None if done.cancelled() else done.exception()
        self._server.log.error("%s %s failed", head.method, head.target, exc_info=error)
        return self._server.router.pages.internal_error()

    def _crash(self, head: Head) -> Response:
        self._server.log.exception("%s %s failed", head.method, head.target)
        return self._server.router.pages.internal_error()

    def _settle(self) -> None:
        """Writes the answers at the front of the queue that are complete."""
        slots = self._slots
        while slots and (response := slots[0].later.response) is not None:
            slot = slots.popleft()
            self._write(response, slot.plan, slot.started, slot.close)
        if slots:
            slots[0].later.when_ready(self._settle)
        self._flush()
        self._resume_if_possible()
        self._end_if_done()

    def _end_if_done(self) -> None:
        """A client that said it sends no more is let go once all its answers are written."""
        if self._eof and not self._slots and not self._paused and not self._closing:
            self.close()

    def _write(self, response: Response, plan: Plan, started: int, close: bool) -> None:
        self._out += encode(response, plan.head, self._server.date(), close=close)
        if not plan.route.quiet:
            self._log(response, plan.head, started)
        if close:
            self._flush()
            self._linger()
        elif len(self._out) >= _FLUSH_PIECES or response.size >= _FLUSH_BYTES:
            self._flush()  # lets a full write buffer stop the reading of further requests

    def _refuse(self, response: Response, plan: Plan) -> None:
        """Answers a request whose body is not read to its end; the connection goes with it."""
        self._closing = True
        self._body = self._plan = None
        started = self._server.clock.monotonic_ns()
        later = Later()
        later.response = response
        self._slots.append(_Slot(later, plan, started, True))
        if self._slots[0].later is later:
            self._settle()

    def _bad_request(self, error: BadRequest) -> None:
        """Answers what is no request, as Go does: a bare head without date or length."""
        self._closing = True
        line = error.status
        self._out.append(
            f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Connection: close\r\n\r\n{line}".encode()
        )
        self._flush()
        self._linger()

    def _linger(self) -> None:
        """Closes once the peer had time to read: unread input would reset the connection."""
        transport = self._transport
        if transport.is_closing():
            return
        if self._eof or not transport.can_write_eof():
            transport.close()
            return
        transport.write_eof()
        if self._paused:
            transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, transport.close)

    def _flush(self) -> None:
        out = self._out
        if out:
            if not self._transport.is_closing():
                self._transport.write(b"".join(out))
            out.clear()

    # -- flow

    def _pause_if_needed(self) -> None:
        if not self._paused and (self._write_blocked or len(self._slots) >= MAX_PIPELINED):
            self._paused = True
            self._transport.pause_reading()

    def _resume_if_possible(self) -> None:
        if not self._paused or self._write_blocked or len(self._slots) >= MAX_PIPELINED // 2:
            return
        self._paused = False
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        data = bytes(self._rest)
        self._rest.clear()
        self._consume(data)
        self._flush()
        self._end_if_done()

    # -- names and logs

    def _remote(self) -> str:
        if not self._peer:
            self._peer = show_address(self._transport.get_extra_info("peername"))
        return self._peer

    def _log(self, response: Response, head: Head, started: int) -> None:
        log = self._server.log
        if log.isEnabledFor(logging.INFO):
            elapsed = format_duration(self._server.clock.monotonic_ns() - started)
            log.info(
                "%d %s %s (%s) %s",
                response.status,
                head.method,
                head.target,
                self._remote(),
                elapsed,
            )


async def _run(answer: Awaitable[Response]) -> Response:
    return await answer

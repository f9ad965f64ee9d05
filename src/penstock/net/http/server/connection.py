"""One client's connection to the HTTP server, on a plain asyncio protocol.

A handler returns a ``Response``, which costs no task and no future; or a ``DeferredResponse`` or an
awaitable, and the answers still leave in the order of their requests, in one write for each read.
After a ``StreamingResponse`` the connection answers nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from functools import partial
from typing import Protocol

from msgspec import Struct

from penstock import lane
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.units import format_duration
from penstock.net.address import show_address
from penstock.net.budget import SMALL, Memory
from penstock.net.http.server.deferred_response import DeferredResponse, deferred_response_of
from penstock.net.http.server.head import Head
from penstock.net.http.server.known_heads import LONGEST, Known
from penstock.net.http.server.load import Load
from penstock.net.http.server.message import Bare, DateLine, Response, encode
from penstock.net.http.server.reader import Event, RequestReader
from penstock.net.http.server.router import Router
from penstock.net.http.server.streaming import StreamingResponse

MAX_PIPELINED = 64
"""Requests of one connection that may wait for their answers before reading pauses."""
STALL_S = 60.0
"""A request not complete after this long is refused, unless its body still flows."""
STALL_BYTES = 64 * 1024
"""Bytes of a body that must have come in that time for it to flow."""
LINGER_S = 0.5
"""Time in which the rest of a refused request is read away, so that its sender sees the answer."""
_FLUSH_PIECES = 512
_FLUSH_BYTES = 16 * 1024


class _Slot(Struct, eq=False):
    """The place of one answer among those of its connection."""

    later: DeferredResponse
    head: Head | None
    started: int
    size: int = 0
    """Bytes of a large answer that waits for earlier answers."""


class Server(Protocol):
    """The server of a connection (``service.HttpServer``)."""

    router: Router
    memory: Memory
    clock: Clock
    date: DateLine
    log: logging.Logger
    connections: set[Connection]
    publisher: lane.Publisher | None


class Connection(lane.Requests, asyncio.Protocol):
    """A client's connection: its requests are handled, and answered in their order."""

    __slots__ = ("_eof", "_has_body", "_load", "_out", "_peer", "_server", "_stream", "_timer",
                 "_transport", "_write_blocked")  # fmt: skip

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self.reader = RequestReader(server.router, self._remote)
        self._peer = ""
        # Lists, although they are used as queues: most are empty, and an empty deque is large.
        self.slots: list[_Slot] = []
        self._out: list[bytes | memoryview] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stream: StreamingResponse | None = None
        self._eof = False
        self._has_body = False  # part of one, which counts in the budget of requests
        self.paused = False
        self.owed = 0
        self.held = b""
        self._write_blocked = False
        self._load = Load(server.memory, server.router.pages)
        if server.publisher is not None:
            self.take_plain(server.publisher, server.router.known.find, LONGEST)

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's is always one
        self._load.begin(self._transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reader.close()
        self._abandon()
        self._drop_slots()
        if self._timer is not None:
            self._timer.cancel()
        self._server.connections.discard(self)
        self._load.close()
        if self._stream is not None:
            self._stream.lost()

    def parse(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.received(data)
            return
        reader = self.reader
        reader.feed(data)
        if not reader.unfinished and not self._has_body:
            self._proceed()
            return
        self._weigh_body()
        self._proceed()
        if reader.unfinished:
            if not self._owes_answers():
                reader.begin()
            if self._timer is None:
                self._watch()

    def eof_received(self) -> bool:
        self._eof = True
        if self.owed:  # what it has sent behind a publish is read when that is answered
            return True
        self.reader.end()
        self._proceed()
        self._abandon()
        return self._owes_answers()

    def _weigh_body(self) -> None:
        """Refuse a body if incomplete bodies already hold too much memory."""
        reader = self.reader
        self._has_body = reader.unfinished
        refusal = self._load.refuse_body(reader.size if reader.unfinished else 0)
        if refusal is not None:
            reader.refuse(refusal)

    def _abandon(self) -> None:
        """Whoever still works on an answer may stop: most clients are gone when they say so."""
        for slot in list(self.slots):
            slot.later.abandon()

    def pause_writing(self) -> None:
        self._write_blocked = True
        if self._stream is not None:  # whose client is heard all the same
            self._stream.pause()
            return
        self._pause_if_needed()

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._load.weigh_answers()
        self._resume_if_possible()
        if self._stream is not None:
            self._stream.resume()

    def close(self) -> None:
        """End the connection after what was written."""
        self._transport.close()

    def close_after(self, answers: Container[DeferredResponse]) -> bool:
        """Take no more requests if the next answer is one of these, and close after it; False if it
        is not.
        """
        slots = self.slots
        if not slots or slots[0].later not in answers:
            return False
        self.reader.ended = True
        self.reader.events.clear()
        del slots[1:]
        if slots[0].head is not None:
            slots[0].head.keep_alive = False
        return True

    # -- answering

    def _proceed(self) -> None:
        """Handle what was read and may be answered now."""
        events = self.reader.events
        taken = 0
        for event in events:
            if self.paused:
                break
            taken += 1
            self._take(event)
        del events[:taken]
        self._flush()
        if self._eof:
            self._end_if_done()

    def _take(self, event: Event) -> None:
        """Have a request handled, and write the answer or give it its place in the queue."""
        answer: object
        if isinstance(event, Bare):
            answer, head, started = event, None, 0
        else:
            request, route = event
            head = request.head
            started = 0 if route.quiet else self._server.clock.monotonic_ns()
            try:
                answer = route.handler(request)
            # A fault of ours ends this request with 500, and not the connection (NSQ spec 2.1).
            except Exception as error:
                answer = self._failed(head, error)
        if type(answer) is Response and not self.slots:
            return self._write(answer, head, started)
        later = answer
        if not isinstance(later, DeferredResponse):
            later = deferred_response_of(answer, partial(self._failed, head))
        size = 0 if later.response is None else self._queue(later)
        self.slots.append(_Slot(later, head, started, size))
        if later.response is None or len(self.slots) == 1:
            later.when_ready(self._settle)
        self._pause_if_needed()

    def _queue(self, later: DeferredResponse) -> int:
        """Count an answer that has to wait, or replace it by a refusal; the bytes to write."""
        assert later.response is not None
        size = later.response.body_size()
        if size <= SMALL:
            return 0
        response = later.response
        later.response = self._load.admit(response, size)
        if later.response is not response:
            return 0
        self._load.queue(size)
        return size

    def _failed(self, head: Head | None, error: BaseException) -> Response:
        what = "" if head is None else f"{head.method} {head.target}"
        self._server.log.error("%s failed", what, exc_info=error)
        return self._server.router.pages.internal_error()

    def _settle(self) -> None:
        """Write the answers at the front of the queue that are complete."""
        slots = self.slots
        while slots and (response := slots[0].later.response) is not None:
            slot = slots.pop(0)
            if isinstance(response, StreamingResponse) and slot.head is not None:
                self._begin_stream(response, slot.head, slot.started)
                break
            self._write(response, slot.head, slot.started, slot.size)
        if slots:
            slots[0].later.when_ready(self._settle)
        self._flush()
        if self.paused:
            self._resume_if_possible()
        if self._eof:
            self._end_if_done()

    def _end_if_done(self) -> None:
        """A client that said it sends no more is let go once all its answers are written."""
        if not self._owes_answers():
            self.close()

    def _owes_answers(self) -> bool:
        return bool(self.owed or self.slots or self.reader.events)

    # -- plain publishes, which compiled code takes (penstock.lane)

    def published(self, known: Known, count: int, failure: StorageError | None) -> None:
        """Answer ``count`` publishes that had this head, and go on with what is held."""
        assert known.route.plain is not None
        response = known.route.plain.outcome(failure)
        for _ in range(count):
            self._write(response, known.head, 0)
        self._flush()
        if self.owed:
            return
        if self.held:
            data, self.held = self.held, b""
            self._resume_if_possible()
            self.parse(data)
        if self._eof:
            self.eof_received()

    def hold(self, data: bytes) -> None:
        """Hold what comes behind publishes that are not answered yet; read no more meanwhile."""
        self.held += data
        if not self.paused:
            self.paused = True
            self._transport.pause_reading()

    def _write(self, response: Response, head: Head | None, started: int, queued: int = 0) -> None:
        if head is None:
            assert isinstance(response, Bare)
            self._out.append(response.raw)
            is_last = response.status >= 400
        else:
            pieces = encode(response, head, self._server.date())
            if response.size > SMALL and not queued:
                response = self._load.admit(response, response.size)
                pieces = encode(response, head, self._server.date())
            self._out += pieces
            is_last = not head.keep_alive
            if started:
                self._log(response, head, started)
        if is_last or len(self._out) >= _FLUSH_PIECES or response.size >= _FLUSH_BYTES:
            self._flush()  # lets a full write buffer stop the taking of further requests
            if response.size > SMALL:
                self._load.wrote(response.size, queued)
        if is_last:
            self._linger()

    def _begin_stream(self, stream: StreamingResponse, head: Head, started: int) -> None:
        """From now on the connection is the stream's; what else was asked for is not answered."""
        self.reader.ended = True
        self.reader.events.clear()
        self._load.queue(-sum(slot.size for slot in self.slots))
        self._drop_slots()
        self._flush()
        self._stream = stream
        stream.begin(self._transport, self._server.date())
        if started:
            self._log(stream, head, started)

    def _drop_slots(self) -> None:
        """Give up the answers that wait for their turn, and end the streams among them."""
        for slot in self.slots:
            if isinstance(slot.later.response, StreamingResponse):
                slot.later.response.lost()
        self.slots.clear()

    def _linger(self) -> None:
        """Close once the peer had time to read: unread input would reset the connection."""
        transport = self._transport
        if transport.is_closing():
            return
        if self._eof or not transport.can_write_eof():
            transport.close()
            return
        # As Go does: the peer sees the end, and what it still sends does not reset the answer away.
        transport.write_eof()
        if self.paused:
            transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, transport.close)

    def _flush(self) -> None:
        out = self._out
        if out:
            if not self._transport.is_closing():
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()

    # -- flow

    def _pause_if_needed(self) -> None:
        if not self.paused and (self._write_blocked or len(self.slots) >= MAX_PIPELINED):
            # What was read stays with the reader: TCP then slows the client down.
            self.paused = True
            self._transport.pause_reading()

    def _resume_if_possible(self) -> None:
        if not self.paused or self._write_blocked or len(self.slots) >= MAX_PIPELINED // 2:
            return
        self.paused = False
        if self._transport.is_closing():
            return
        self._transport.resume_reading()
        self._proceed()

    def _watch(self) -> None:
        """Look again later at a request that is not complete.

        The timer is left alone when the request is complete soon, as most are: it costs nothing
        then, and finds nothing to do or another request, which it gives the same time.
        """
        reader = self.reader
        if reader.unfinished:
            self._timer = asyncio.get_running_loop().call_later(
                STALL_S, self._look_again, reader.count, reader.size
            )

    def _look_again(self, count: int, size: int) -> None:
        self._timer = None
        reader = self.reader
        is_same = reader.unfinished and reader.count == count
        if is_same and not self.paused and reader.size - size < STALL_BYTES:
            reader.give_up()
            self._proceed()
        else:
            self._watch()

    # -- names and logs

    def _remote(self) -> str:
        if not self._peer:
            self._peer = show_address(self._transport.get_extra_info("peername"))
        return self._peer

    def _log(self, response: Response, head: Head, started: int) -> None:
        log = self._server.log
        if log.isEnabledFor(logging.INFO):
            elapsed = format_duration(self._server.clock.monotonic_ns() - started)
            what = (response.status, head.method, head.target, self._remote(), elapsed)
            log.info("%d %s %s (%s) %s", *what)

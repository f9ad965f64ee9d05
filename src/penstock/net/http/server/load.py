"""The memory that one HTTP connection holds: an incomplete body, and unsent answers."""

from __future__ import annotations

import asyncio

from penstock.net.budget import SMALL, UNREAD_S, Budget, Memory, MemoryShare
from penstock.net.http.server.message import Response
from penstock.net.http.server.router import ErrorPages


class Load:
    """A connection's shares of the two budgets; ``pages`` makes the answers that refuse."""

    __slots__ = ("_answers", "_body", "_memory", "_pages", "_queued", "_timer", "_transport",
                 "_written")  # fmt: skip

    def __init__(self, memory: Memory, pages: ErrorPages) -> None:
        self._memory = memory
        self._pages = pages
        self._body = MemoryShare(memory.requests)
        self._answers = MemoryShare(memory.answers)
        self._queued = 0  # bytes of answers that wait for earlier ones
        self._written = 0  # of those that the transport keeps, whole until it has sent all
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def begin(self, transport: asyncio.Transport) -> None:
        """Set the transport to which the answers go."""
        self._transport = transport
        transport.set_write_buffer_limits(SMALL, 0)  # it tells when it keeps nothing any more

    def close(self) -> None:
        """Release both shares when the connection has ended."""
        self._body.hold(0)
        self._answers.hold(0)
        if self._timer is not None:
            self._timer.cancel()

    def refuse_body(self, nbytes: int) -> Response | None:
        """Count the bytes of an incomplete body; returns a refusal if they are too many."""
        if self._body.hold(nbytes):
            return None
        self._body.hold(0)
        return self._busy(self._memory.requests)

    def admit(self, response: Response, size: int) -> Response:
        """The response, or a refusal in its place if there is no room for a body of that size."""
        if size <= SMALL or self._memory.answers.has_room(size):
            return response
        return self._busy(self._memory.answers)

    def queue(self, nbytes: int) -> None:
        """Add to the bytes of answers that wait for earlier ones; negative when they do not."""
        self._queued += nbytes
        self.weigh_answers()

    def wrote(self, nbytes: int, queued: int) -> None:
        """Count an answer that was given to the transport, of which ``queued`` bytes waited."""
        self._written += nbytes
        self.queue(-queued)

    def weigh_answers(self) -> None:
        """Update the share after answers were written, or read by the client."""
        unsent = self._transport.get_write_buffer_size()
        if not unsent:
            self._written = 0
        held = max(unsent, self._written) + self._queued
        self._answers.hold(held if held > SMALL else 0)
        if self._answers.held and self._timer is None:
            self._watch()

    @property
    def _unread(self) -> int:
        return self._transport.get_write_buffer_size() + self._queued

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(UNREAD_S, self._look_again, self._unread)

    def _look_again(self, unread: int) -> None:
        """End a connection that reads none of its answers while they take up others' room."""
        self._timer = None
        self.weigh_answers()
        budget = self._memory.answers
        is_stuck = self._answers.held and self._unread >= unread
        if is_stuck and budget.limit and budget.used * 2 > budget.limit:
            self._transport.abort()

    def _busy(self, budget: Budget) -> Response:
        budget.refused += 1
        response = self._pages.busy(
            f"{budget.used} bytes are held, and {budget.flag} is {budget.limit}; try again"
        )
        response.headers = (*response.headers, ("Retry-After", "1"))
        return response

"""What an HTTP connection holds in memory: a body not complete yet, answers not sent yet."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.net.budget import SMALL, Budget, Memory, Share
from penstock.net.http_message import Response
from penstock.net.http_router import ErrorPages

UNREAD_S: Final = 60.0
"""So long a client may take nothing of its answers while they are half of what all may hold."""


class Load:
    """The shares of a connection; `pages` says in whose words it is refused."""

    __slots__ = ("_answers", "_body", "_memory", "_pages", "_queued", "_timer", "_transport")

    def __init__(self, memory: Memory, pages: ErrorPages) -> None:
        self._memory = memory
        self._pages = pages
        self._body = Share(memory.requests)
        self._answers = Share(memory.answers)
        self._queued = 0  # bytes of answers that wait for those before them
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def begin(self, transport: asyncio.Transport) -> None:
        """From now on answers go there."""
        self._transport = transport

    def close(self) -> None:
        """The connection has ended."""
        self._body.hold(0)
        self._answers.hold(0)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def has_body(self) -> bool:
        return self._body.held > 0

    def refuse_body(self, nbytes: int) -> Response | None:
        """A refusal where so much of a body is too much; None where it may grow."""
        if self._body.hold(nbytes):
            return None
        self._body.hold(0)
        return self._busy(self._memory.requests)

    def admit(self, response: Response, size: int) -> Response:
        """The response with a body of that size, or a refusal in its place."""
        if size <= SMALL or self._memory.answers.has_room(size):
            return response
        return self._busy(self._memory.answers)

    def queue(self, nbytes: int) -> None:
        """So many bytes more, or less, of answers wait for those before them."""
        self._queued += nbytes
        self.weigh_answers()

    def weigh_answers(self) -> None:
        """Answers were written, or taken by the client."""
        unsent = self._transport.get_write_buffer_size() + self._queued
        self._answers.hold(unsent if unsent > SMALL else 0)
        if self._answers.held and self._timer is None:
            self._watch()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(UNREAD_S, self._look_again, self._answers.held)

    def _look_again(self, held: int) -> None:
        """Ends a connection that keeps others from their answers, and takes none of its own."""
        self._timer = None
        self.weigh_answers()
        budget = self._memory.answers
        if self._answers.held >= held and budget.limit and budget.used * 2 > budget.limit:
            self._transport.abort()

    def _busy(self, budget: Budget) -> Response:
        budget.refused += 1
        response = self._pages.busy(
            f"{budget.used} bytes are held, and {budget.flag} is {budget.limit}; try again"
        )
        response.headers = (*response.headers, ("Retry-After", "1"))
        return response

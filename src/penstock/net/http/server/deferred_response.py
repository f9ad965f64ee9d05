"""Answers that come later than their handler returns."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.net.http.server.message import Response
from penstock.net.tasks import spawn


class DeferredResponse(Struct, eq=False):
    """A response that a handler owes: it returns this, and somebody completes it.

    Cheaper than a future: completing writes at once, with no turn of the event loop between.
    """

    response: Response | None = None
    abandoned: Callable[[], None] | None = None
    """Called when the client has gone, or sends no more, before it was answered."""
    _ready: Callable[[], None] | None = None

    def complete(self, response: Response) -> None:
        """Give the response; a second call is an error of the caller."""
        if self.response is not None:
            raise RuntimeError("this response was completed before")
        self.response = response
        if self._ready is not None:
            self._ready()

    def abandon(self) -> None:
        """The client does not wait any longer."""
        if self.response is None and self.abandoned is not None:
            self.abandoned()

    def when_ready(self, call: Callable[[], None]) -> None:
        """Have ``call`` called at completion, or now if that was before."""
        self._ready = call
        if self.response is not None:
            call()


def deferred_response_of(
    answer: object, failed: Callable[[BaseException], Response]
) -> DeferredResponse:
    """The deferred response of any handler's answer; ``failed`` makes the response to an error."""
    if isinstance(answer, DeferredResponse):
        return answer
    later = DeferredResponse()
    if isinstance(answer, Response):
        later.response = answer
    elif isinstance(answer, asyncio.Future) and answer.done():
        later.response = _result(answer, failed)
    elif inspect.isawaitable(answer):
        task = answer if isinstance(answer, asyncio.Future) else spawn(_run(answer), "http")
        task.add_done_callback(lambda done: later.complete(_result(done, failed)))
    else:
        later.response = failed(TypeError(f"a handler returned {answer!r}"))
    return later


def _result(
    done: asyncio.Future[Response], failed: Callable[[BaseException], Response]
) -> Response:
    try:
        return done.result()
    # A task that was cancelled owes an answer too: those behind it wait for their turn.
    except (Exception, asyncio.CancelledError) as error:
        return failed(error)


async def _run(answer: Awaitable[Response]) -> Response:
    return await answer

"""One node as a producer sees it: connected when needed, requests out, their answers in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.nsq.client.aio.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    ClientError,
    NotConnected,
    TimedOut,
    server_error,
)
from penstock.nsq.client.events import tell
from penstock.nsq.client.publishing import Request, Router
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, Response

RETRY_DELAY: Final = SECOND // 20
"""The delay before an unreachable node is tried again; each further failure doubles it."""
RETRY_DELAY_MAX: Final = SECOND


class Node:
    """The connection to one address, made by the first request and again by one after a loss.

    ``router`` is told what became of each request. ``again`` gets those that are to be sent again,
    often none: then it may still be time to send more.
    """

    def __init__(
        self,
        address: str,
        config: Config,
        clock: Clock,
        router: Router,
        again: Callable[[Sequence[Request]], None],
    ) -> None:
        self.address = address
        self.error: ClientError | None = None
        """The reason why the last connection ended, or could not be had."""
        self.waiting: deque[Request] = deque()
        """The requests that were sent and are not answered."""
        self.unsent: list[Request] = []
        """The requests that wait for the connection."""
        self._config = config
        self._clock = clock
        self._router = router
        self._again = again
        self._connection: Connection | None = None
        self._closing: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._retry_at = 0
        self._retry_delay = 0
        self._impatience: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """True if requests go out at once."""
        return self._connection is not None and self._connection.is_open

    def send(self, requests: Sequence[Request]) -> None:
        """Send these, once there is a connection; the router hears of each of them later."""
        self._leave_if_closing()
        if self._connection is not None:
            self._say(self._connection, requests)
        elif self._opening is None and self._clock.monotonic_ns() < self._retry_at:
            # ``_retry_at`` is set where the error is, in ``_failed``.
            assert self.error is not None
            self._again(self._router.lost(requests, self.error, was_sent=False))
        else:
            self.unsent += requests
            self._open()

    async def ping(self) -> None:
        """Connect if need be, and say NOP. Raises ClientError."""
        self._leave_if_closing()
        if not self.is_connected:
            await asyncio.wait([self._open()])
        if self._connection is None:
            raise self.error or NotConnected(self.address, "the connection is gone")
        self._connection.send(encode.NOP)

    def stop(self) -> list[Request]:
        """No more of it: what was under way is returned. ``close`` is to follow."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        under_way = [*self.waiting, *self.unsent]
        self.unsent = []
        self._closing = self._detach()
        return under_way

    async def close(self) -> None:
        """Close the connection, after ``stop``."""
        if self._closing is not None:
            self._tell(logging.INFO, "closing", "stopping")
            await self._closing.close()

    # --- connecting ------------------------------------------------------------------------------

    def _open(self) -> asyncio.Task[None]:
        if self._opening is None:
            self._opening = spawn(self._connect(), f"connect to {self.address}")
        return self._opening

    async def _connect(self) -> None:
        self._tell(logging.INFO, "connecting", "connecting to nsqd")
        try:
            connection = await Connection.open(
                self.address, self._config, on_frame=self._on_frame, on_lost=self._on_lost
            )
        except ClientError as error:
            self._opening = None
            self._failed(error)
            return
        self._opening = None
        if not connection.is_open:  # lost between its opening and this line
            self._failed(NotConnected(self.address, "the connection was lost at once"))
            return
        self._connection = connection
        self._retry_at = self._retry_delay = 0
        self._tell(logging.DEBUG, "connected", "connected")
        requests, self.unsent = self.unsent, []
        self._say(connection, requests)

    def _failed(self, error: ClientError) -> None:
        reason = error.reason if isinstance(error, NotConnected) else str(error)
        self._tell(logging.ERROR, "connect-failed", f"error connecting to nsqd - {reason}")
        self._retry_delay = min(2 * self._retry_delay or RETRY_DELAY, RETRY_DELAY_MAX)
        self._retry_at = self._clock.monotonic_ns() + self._retry_delay
        self.error = error
        requests, self.unsent = self.unsent, []
        self._again(self._router.lost(requests, error, was_sent=False))

    # --- requests and answers --------------------------------------------------------------------

    def _say(self, connection: Connection, requests: Sequence[Request]) -> None:
        now = self._clock.monotonic_ns()
        for request in requests:
            request.sent_at = now
            connection.send(request.command())
        self.waiting += requests
        if self._impatience is None and self.waiting:
            self._look_later(self._config.read_timeout)

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        # The answers of a connection that was given up.
        if connection is not self._connection:
            return
        if not self.waiting:
            self._lose(ClientError(f"{self.address}: an answer nobody waits for: {frame!r}"))
        elif frame == Response(b"OK"):
            self._router.succeeded(self.waiting.popleft())
            self._again(())
        elif isinstance(frame, Error):
            self._on_error(frame)
        else:
            request = self.waiting.popleft()
            error = ClientError(f"{self.address}: unexpected answer to a publish: {frame!r}")
            self._router.fail(request, error)
            self._lose(error)

    def _on_error(self, frame: Error) -> None:
        """A refusal ends the connection, and with it what was sent behind."""
        request = self.waiting.popleft()
        behind = list(self.waiting) if frame.is_fatal else []
        if frame.is_fatal:
            self._drop(frame.text)
        error = server_error(frame.text)
        self._again([*self._router.refused(request, error), *self._router.behind(behind, error)])

    def _on_lost(self, connection: Connection, error: NotConnected) -> None:
        if connection is self._connection:
            self._tell(logging.WARNING, "disconnected", f"IO error - {error.reason}")
            self._lose(error)

    def _leave_if_closing(self) -> None:
        """Wait no longer for the end of a connection that the node has closed and that still has
        bytes to send: what waits there must not get the answers of the next one.
        """
        if self._connection is not None and not self._connection.is_open:
            closed = NotConnected(self.address, "the server closed the connection")
            self._on_lost(self._connection, closed)

    def _lose(self, error: ClientError) -> None:
        """End the connection; what was sent may or may not have been carried out."""
        self.error = error
        sent = list(self.waiting)
        self._drop(str(error))
        self._again(self._router.lost(sent, error, was_sent=True))

    def _drop(self, reason: str) -> None:
        connection = self._detach()
        if connection is not None:
            connection.abort(reason)

    def _detach(self) -> Connection | None:
        """Forget the connection, and what was sent over it."""
        connection, self._connection = self._connection, None
        self.waiting.clear()
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
        return connection

    # --- patience --------------------------------------------------------------------------------

    def _look_later(self, seconds: float) -> None:
        self._impatience = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """End a connection on which an answer is overdue; one timer for all requests."""
        self._impatience = None
        if not self.waiting:
            return
        waited = (self._clock.monotonic_ns() - self.waiting[0].sent_at) / SECOND
        if waited < self._config.read_timeout:
            self._look_later(self._config.read_timeout - waited)
            return
        error = TimedOut(self.address, "no answer to a publish in time")
        self._tell(logging.ERROR, "disconnected", f"IO error - {error.reason}")
        self._lose(error)

    def _tell(self, level: int, event: str, text: str) -> None:
        tell(level, event, text, address=self.address)

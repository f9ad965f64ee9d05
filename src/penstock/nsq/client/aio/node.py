"""One node as a producer sees it: connected when needed, requests out, their answers in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.nsq.client.aio.link import Link
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    ClientError,
    NotConnected,
    ServerError,
    TimedOut,
    server_error,
)
from penstock.nsq.client.events import tell
from penstock.nsq.client.publishing import Request
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, Response

RETRY_DELAY: Final = SECOND // 20
"""How long a node that could not be reached is left alone; then twice as long, and so on."""
RETRY_DELAY_MAX: Final = SECOND


class Owner(Protocol):
    """Who is told what became of the requests."""

    def answered(self, request: Request) -> None:
        """The node has it."""
        ...

    def refused(self, request: Request, error: ServerError, behind: Sequence[Request]) -> None:
        """The node has refused it, and therefore not carried out those behind it."""
        ...

    def failed(self, request: Request, error: ClientError) -> None:
        """The node has answered what nobody understands."""
        ...

    def lost(self, requests: Sequence[Request], error: ClientError, *, was_sent: bool) -> None:
        """The node cannot be reached, or not any more."""
        ...


class Node:
    """The connection to one address, made by the first request and again by one after a loss."""

    def __init__(self, address: str, config: Config, clock: Clock, owner: Owner) -> None:
        self.address = address
        self.error: ClientError | None = None
        """Why the last connection ended, or could not be had."""
        self.waiting: deque[Request] = deque()
        """What was sent and is not answered."""
        self.unsent: list[Request] = []
        """What waits for the connection."""
        self._config = config
        self._clock = clock
        self._owner = owner
        self._link: Link | None = None
        self._closing: Link | None = None
        self._opening: asyncio.Task[None] | None = None
        self._retry_at = 0
        self._retry_delay = 0
        self._impatience: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """Whether requests go out at once."""
        return self._link is not None and self._link.is_open

    def send(self, requests: Sequence[Request]) -> None:
        """Send these, once there is a connection; the owner hears of each of them later."""
        if self._link is not None and self._link.is_open:
            self._say(self._link, requests)
        elif self._opening is None and self._clock.monotonic_ns() < self._retry_at:
            assert self.error is not None
            self._owner.lost(requests, self.error, was_sent=False)
        else:
            self.unsent += requests
            self._open()

    async def ping(self) -> None:
        """Connect if need be, and say NOP. Raises ClientError."""
        if not self.is_connected:
            await asyncio.wait([self._open()])
        if self._link is None:
            raise self.error or NotConnected(self.address, "the connection is gone")
        self._link.send(encode.NOP)

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
            link = await Link.open(
                self.address, self._config, on_frame=self._on_frame, on_lost=self._on_lost
            )
        except ClientError as error:
            self._opening = None
            self._failed(error)
            return
        self._opening = None
        if not link.is_open:  # lost between its opening and this line
            self._failed(NotConnected(self.address, "the connection was lost at once"))
            return
        self._link = link
        self._retry_at = self._retry_delay = 0
        self._tell(logging.DEBUG, "connected", "connected")
        requests, self.unsent = self.unsent, []
        self._say(link, requests)

    def _failed(self, error: ClientError) -> None:
        reason = error.reason if isinstance(error, NotConnected) else str(error)
        self._tell(logging.ERROR, "connect-failed", f"error connecting to nsqd - {reason}")
        self._retry_delay = min(2 * self._retry_delay or RETRY_DELAY, RETRY_DELAY_MAX)
        self._retry_at = self._clock.monotonic_ns() + self._retry_delay
        self.error = error
        requests, self.unsent = self.unsent, []
        self._owner.lost(requests, error, was_sent=False)

    # --- requests and answers --------------------------------------------------------------------

    def _say(self, link: Link, requests: Sequence[Request]) -> None:
        now = self._clock.monotonic_ns()
        for request in requests:
            request.sent_at = now
            link.send(request.command())
        self.waiting += requests
        if self._impatience is None and self.waiting:
            self._look_later(self._config.read_timeout)

    def _on_frame(self, link: Link, frame: Frame) -> None:
        if link is not self._link:
            return
        if not self.waiting:
            self._lose(ClientError(f"{self.address}: an answer nobody waits for: {frame!r}"))
        elif frame == Response(b"OK"):
            self._owner.answered(self.waiting.popleft())
        elif isinstance(frame, Error):
            self._on_error(frame)
        else:
            request = self.waiting.popleft()
            error = ClientError(f"{self.address}: unexpected answer to a publish: {frame!r}")
            self._owner.failed(request, error)
            self._lose(error)

    def _on_error(self, frame: Error) -> None:
        """A refusal ends the connection: what was sent after it is not carried out."""
        request = self.waiting.popleft()
        behind = list(self.waiting) if frame.is_fatal else []
        if frame.is_fatal:
            self._drop(frame.text)
        self._owner.refused(request, server_error(frame.text), behind)

    def _on_lost(self, link: Link, error: NotConnected) -> None:
        if link is self._link:
            self._tell(logging.WARNING, "disconnected", f"IO error - {error.reason}")
            self._lose(error)

    def _lose(self, error: ClientError) -> None:
        """End the connection; what was sent may or may not have been carried out."""
        self.error = error
        sent = list(self.waiting)
        self._drop(str(error))
        self._owner.lost(sent, error, was_sent=True)

    def _drop(self, reason: str) -> None:
        link = self._detach()
        if link is not None:
            link.abort(reason)

    def _detach(self) -> Link | None:
        """Forget the connection, and what was sent over it."""
        link, self._link = self._link, None
        self.waiting.clear()
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
        return link

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

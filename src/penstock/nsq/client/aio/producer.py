"""A producer for asyncio: publishes share a connection, whose answers come in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock.nsq.client.aio.link import Link
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, NotConnected, server_error
from penstock.nsq.client.names import checked_topic
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, Response


class Producer:
    """Publishes to one node; connects when it first needs to, and again after a loss.

    Publishes may run side by side; they share the connection, and the server answers in order. When
    one raises NotConnected, the server may or may not have the message. A refusal is the
    ServerError of its code, such as BadTopic, and ends the connection with all publishes under way.
    """

    def __init__(self, address: str, config: Config | None = None) -> None:
        self.address = address
        self._config = config or Config()
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def publish(self, topic: str, body: bytes) -> None:
        """Publish one message and wait until the server has it."""
        await self._ask(encode.publish(checked_topic(topic, "PUB"), body))

    async def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish many messages at once: quicker by far, and refused all or none."""
        if bodies:
            await self._ask(encode.multi_publish(checked_topic(topic, "MPUB"), bodies))

    async def deferred_publish(self, topic: str, delay: float, body: bytes) -> None:
        """Publish a message that is delivered no sooner than ``delay`` seconds from now."""
        await self._ask(
            encode.deferred_publish(checked_topic(topic, "DPUB"), int(delay * 1000), body)
        )

    async def close(self) -> None:
        """Close the connection; publishes under way raise NotConnected."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _ask(self, command: bytes) -> None:
        link = await self._connected()
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        link.send(command)
        try:
            async with asyncio.timeout(self._config.read_timeout):
                await answer
        except TimeoutError:
            link.abort("no answer to a publish in time")
            raise NotConnected(self.address, "no answer to a publish in time") from None

    async def _connected(self) -> Link:
        if self._link is not None and self._link.is_open:
            return self._link
        async with self._opening:
            if self._link is None or not self._link.is_open:
                waiting: deque[asyncio.Future[None]] = deque()
                self._waiting = waiting
                self._link = await Link.open(
                    self.address,
                    self._config,
                    on_frame=lambda link, frame: _answer(link, frame, waiting),
                    on_lost=lambda link, error: _fail_all(waiting, error),
                )
            return self._link


def _answer(link: Link, frame: Frame, waiting: deque[asyncio.Future[None]]) -> None:
    if not waiting:
        link.abort(f"an answer nobody waits for: {frame!r}")
        return
    future = waiting.popleft()
    if future.done():  # its publish was cancelled
        return
    if isinstance(frame, Error):
        future.set_exception(server_error(frame.text))
    elif frame == Response(b"OK"):
        future.set_result(None)
    else:
        future.set_exception(ClientError(f"unexpected answer to a publish: {frame!r}"))


def _fail_all(waiting: deque[asyncio.Future[None]], error: NotConnected) -> None:
    while waiting:
        future = waiting.popleft()
        if not future.done():
            future.set_exception(NotConnected(error.address, error.reason))

"""One asyncio connection to a node: the handshake, frames in, commands out, heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.net.address import split_host_port
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, NotConnected, TimedOut
from penstock.nsq.client.handshake import Handshake, ServerInfo
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Frame, FrameReader, Response


class Link(asyncio.Protocol):
    """A connection that has shaken hands, made by ``open``.

    ``on_frame`` gets every frame but heartbeats, ``on_lost`` is told once when the connection ends.
    """

    def __init__(
        self,
        address: str,
        config: Config,
        subscription: tuple[str, str],
        on_frame: Callable[[Link, Frame], None],
        on_lost: Callable[[Link, NotConnected], None],
    ) -> None:
        self.address = address
        self.server = ServerInfo()
        self.ready = 0
        self.in_flight = 0
        self.left = asyncio.Event()
        """The server has said CLOSE_WAIT, or is gone."""
        self.idle = asyncio.Event()
        """No message is in flight."""
        self.closed = asyncio.Event()
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._handshake = Handshake(config, *subscription)
        self._shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._established = False
        self._transport: asyncio.Transport | None = None
        self._reason = "the server closed the connection"
        self._heard = True
        self._silence_s = 2 * max(0.0, config.heartbeat_interval)
        self._watch: asyncio.TimerHandle | None = None
        self.idle.set()

    @classmethod
    async def open(
        cls,
        address: str,
        config: Config,
        subscription: tuple[str, str] = ("", ""),
        *,
        on_frame: Callable[[Link, Frame], None],
        on_lost: Callable[[Link, NotConnected], None],
    ) -> Link:
        """Connect and shake hands. Raises NotConnected, and ServerError for a refusal."""
        host, port = split_host_port(address)
        loop = asyncio.get_running_loop()
        link = cls(address, config, subscription, on_frame, on_lost)
        try:
            async with asyncio.timeout(config.dial_timeout):
                await loop.create_connection(lambda: link, host, port)
                await link._shaken
        except TimeoutError:
            link.abort("no answer while connecting")
            raise TimedOut(address, "no answer while connecting") from None
        except OSError as error:
            raise NotConnected(address, str(error)) from error
        except BaseException:
            link.abort("connecting was given up")
            raise
        return link

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.send(self._handshake.begin())
        if self._silence_s:
            self._watch_silence()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._reader.receive_data(data)
        try:
            for frame in self._reader.events():
                self._take(frame)
        except ProtocolError as error:
            self.abort(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._watch is not None:
            self._watch.cancel()
        lost = NotConnected(self.address, str(error) if error else self._reason)
        if self._established:
            self._on_lost(self, lost)
        elif not self._shaken.done():
            self._shaken.set_exception(lost)
        for event in (self.left, self.idle, self.closed):
            event.set()

    # What the owner calls

    def send(self, data: bytes) -> None:
        """Send commands as they are; nothing happens when the connection is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def answer(self, command: bytes) -> bool:
        """Send a command about a message; False when the connection is gone."""
        if not self.is_open:
            return False
        self.send(command)
        return True

    def add_in_flight(self, count: int) -> None:
        """So many messages in flight more."""
        self.in_flight += count
        self.idle.clear()

    def settled(self, count: int = 1) -> None:
        """So many messages in flight less."""
        self.in_flight -= count
        if not self.in_flight:
            self.idle.set()

    def set_ready(self, count: int) -> None:
        """RDY, unless it is that already; capped by what the server allows."""
        count = min(count, self.server.max_rdy_count)
        if count != self.ready:
            self.ready = count
            self.send(encode.ready(count))

    def abort(self, reason: str) -> None:
        """Close at once, whatever is left to send."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close after everything was sent, within a second."""
        if self._transport is None:
            return
        self._reason = "closed"
        self._transport.close()
        try:
            async with asyncio.timeout(1.0):
                await self.closed.wait()
        except TimeoutError:
            self.abort("closed")
            await self.closed.wait()

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, Response) and frame.is_heartbeat:
            self.send(encode.NOP)
        elif self._established:
            self._on_frame(self, frame)
        elif not self._shaken.done():
            self._shake(frame)

    def _shake(self, frame: Frame) -> None:
        try:
            more = self._handshake.receive(frame)
        except ClientError as error:
            self._shaken.set_exception(error)
            self.abort(str(error))
            return
        if more:
            self.send(more)
        if self._handshake.done:
            self.server = self._handshake.server
            self._established = True
            self._shaken.set_result(None)

    def _watch_silence(self) -> None:
        """A server sends heartbeats; one that is silent for two of them is gone."""
        if not self._heard:
            self.abort(f"silent for {self._silence_s:g} s")
            return
        self._heard = False
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(self._silence_s, self._watch_silence)

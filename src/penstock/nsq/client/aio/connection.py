"""One asyncio connection to a node: what ``Wire`` has to say goes out, what comes goes into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from penstock.core.reasons import reason as reason_of
from penstock.net.outgoing import connect_error_text, connect_target, local_target
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.client.errors import ClientError, NotConnected, TimedOut
from penstock.nsq.protocol.frames import Frame

_GATHERED_MAX: Final = 64 * 1024
"""Bytes that are gathered for the end of a pass of the loop; more go out at once."""
_CLOSE_S: Final = 1.0


class Connection(asyncio.Protocol):
    """A connection that has shaken hands, made by ``open``.

    ``on_frame`` gets every frame but heartbeats, ``on_lost`` is told once when the connection ends.
    Commands of one pass of the loop go out as one write.
    """

    def __init__(
        self,
        wire: Wire,
        config: Config,
        on_frame: Callable[[Connection, Frame], None],
        on_lost: Callable[[Connection, NotConnected], None],
    ) -> None:
        self.address = wire.address
        self.state = wire.state
        """The visible state of the connection; live."""
        self.left = asyncio.Event()
        """The server has said CLOSE_WAIT, or is gone."""
        self.idle = asyncio.Event()
        """No message is in flight."""
        self.closed = asyncio.Event()
        self._wire = wire
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._shaken: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._reason = ""
        self._flush_due = False
        self._heard = True
        self._silence_s = 2 * max(0.0, config.heartbeat_interval)
        self._silence: asyncio.TimerHandle | None = None
        self._outflow = Outflow(config.write_timeout, self.abort)
        self.idle.set()

    @classmethod
    async def open(
        cls,
        address: str,
        config: Config,
        topic: str = "",
        channel: str = "",
        *,
        on_frame: Callable[[Connection, Frame], None],
        on_lost: Callable[[Connection, NotConnected], None],
    ) -> Connection:
        """Connect within ``dial_timeout`` and shake hands within ``read_timeout``; subscribe when
        a topic and a channel are given.

        Raises NotConnected; ServerError for a refusal; HandshakeFailed and BadTlsOptions where
        trying again would not help.
        """
        opened = cls(Wire(address, config, topic, channel), config, on_frame, on_lost)
        await opened._connect_socket(config)
        try:
            async with asyncio.timeout(config.read_timeout):
                await opened._shaken
        except TimeoutError:
            late = f"no answer within {config.read_timeout:g} s ({opened._wire.awaited})"
            opened._disown()
            opened.abort(late)
            raise TimedOut(address, late) from None
        except BaseException:
            opened._disown()
            opened.abort("connecting was given up")
            raise
        return opened

    async def _connect_socket(self, config: Config) -> None:
        host, port = connect_target(self.address)
        local = local_target(config.local_addr)
        try:
            async with asyncio.timeout(config.dial_timeout or None):
                await self._loop.create_connection(lambda: self, host, port, local_addr=local)
        except BaseException as error:
            self._forget()
            if not isinstance(error, OSError | UnicodeError):
                raise
            kind = TimedOut if isinstance(error, TimeoutError) else NotConnected
            raise kind(self.address, connect_error_text(self.address, error)) from error

    def _forget(self) -> None:
        """Dialling ended while the connection was being made: uvloop closes it and tells nobody."""
        self._shaken.cancel()
        self._disown()
        if self._transport is not None:
            self.connection_lost(None)

    def _disown(self) -> None:
        """Nobody has been given this connection, so nobody is told that it is lost; the handshake
        may be through all the same.
        """
        self._on_lost = _tell_nobody

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True if commands can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def server(self) -> ServerInfo:
        """The node's description of itself."""
        return self._wire.server

    @property
    def ready(self) -> int:
        """The RDY that the node was told last."""
        return self.state.ready

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        return self.state.in_flight

    # --- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outflow.start(self._transport)
        self._wire.begin()
        self._flush()
        if self._silence_s:
            self._watch_silence()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        wire = self._wire
        wire.receive_data(data)
        try:
            frames = wire.events()
            if wire.is_ready and not self._shaken.done():
                self._shaken.set_result(None)
            while frames:
                for frame in frames:
                    self._on_frame(self, frame)
                frames = wire.events()
        except ClientError as error:
            self._fail(error)
            return
        if wire.state.left and not self.left.is_set():
            self.left.set()
        if wire.has_output:
            self._flush_soon()

    def _fail(self, error: ClientError) -> None:
        """The node makes no sense, or has refused us; it may still hear why."""
        self._flush()
        if not self._shaken.done():
            self._shaken.set_exception(error)
        self._reason = error.reason if isinstance(error, NotConnected) else str(error)
        if self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        self._outflow.pause()

    def resume_writing(self) -> None:
        self._outflow.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._outflow.stop()
        if self._silence is not None:
            self._silence.cancel()
        lost = self._wire.lost(self._reason or (reason_of(error) if error else ""))
        if not self._shaken.done():
            self._shaken.set_exception(lost)
        # Whoever still waits for the handshake has the exception instead.
        elif not self._shaken.cancelled() and self._shaken.exception() is None:
            self._on_lost(self, lost)
        for event in (self.left, self.idle, self.closed):
            event.set()

    # --- what the owner calls --------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send commands as they are; nothing happens when the connection is gone."""
        if self._transport is not None:
            self._wire.send(data)
            self._flush_soon()

    def answer(self, command: bytes) -> bool:
        """Send commands about messages, all of a kind; False when the connection is gone."""
        if not self.is_open:
            return False
        self._wire.answer(command)
        self._flush_soon()
        return True

    def add_in_flight(self, count: int) -> None:
        """Count ``count`` more messages in flight."""
        self.state.in_flight += count
        self.idle.clear()

    def settled(self, count: int = 1) -> None:
        """Count ``count`` fewer messages in flight."""
        self.state.in_flight -= count
        if not self.state.in_flight:
            self.idle.set()

    def set_ready(self, count: int) -> None:
        """RDY, unless it is that already; capped by what the server allows."""
        if self._transport is not None:
            self._wire.set_ready(count)
            self._flush_soon()

    def abort(self, reason: str) -> None:
        """Close at once, whatever is left to send."""
        if self._transport is not None:
            self._reason = self._reason or reason
            self._transport.abort()

    async def close(self) -> None:
        """Close after everything was sent, within a second."""
        if self._transport is None:
            return
        self._reason = self._reason or "closed"
        self._wire.end()
        self._flush()
        self._transport.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.closed.wait()
        except TimeoutError:
            self.abort("closed")
            await self.closed.wait()

    # --- the way out -----------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if self._wire.pending > _GATHERED_MAX:
            self._flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_due_now)

    def _flush_due_now(self) -> None:
        self._flush_due = False
        self._flush()

    def _flush(self) -> None:
        if data := self._wire.take_output():
            self._outflow.write(data)

    def _watch_silence(self) -> None:
        """A server sends heartbeats; one that is silent for two of them is gone."""
        if not self._heard:
            self.abort(f"silent for {self._silence_s:g} s")
            return
        self._heard = False
        self._silence = self._loop.call_later(self._silence_s, self._watch_silence)


def _tell_nobody(connection: Connection, error: NotConnected) -> None:
    """Ignore the end of a connection that was given up before its owner had it."""


class Outflow:
    """A transport's writer that calls ``on_stall`` when nothing was taken for ``seconds``."""

    def __init__(self, seconds: float, on_stall: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._on_stall = on_stall
        self._written = 0
        self._taken = 0
        self._watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Write there from now on, and be called for every byte that is not taken at once."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def write(self, data: bytes) -> None:
        """Send it, unless the connection is closing."""
        if self._transport is not None and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    def pause(self) -> None:
        """The node does not take all that was sent."""
        self._look_later()

    def resume(self) -> None:
        """Stop the timer: the transport has taken all, or the connection is gone."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def stop(self) -> None:
        """The connection is gone."""
        self._transport = None
        self.resume()

    def _look_later(self) -> None:
        self._taken = self._taken_by_now()
        self._watch = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def _look(self) -> None:
        if self._taken_by_now() == self._taken:
            self._on_stall(f"the server took nothing of what was sent for {self._seconds:g} s")
        else:
            self._look_later()

    def _taken_by_now(self) -> int:
        left = self._transport.get_write_buffer_size() if self._transport else 0
        return self._written - left

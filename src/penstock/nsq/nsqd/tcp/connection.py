"""The bytes and the time of one TCP connection of nsqd: reading, flow, heartbeats, end.

Commands are taken one by one from the reader and handed to the connection's session. A command may
have to wait: until the publishes before it have their answers, which leave in the order of the
commands, or until its handler, having suspended the connection, says so. What the client sends
meanwhile is held, and when that is much it is not read from the socket any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Protocol, cast

from penstock.core.units import SECOND, format_duration
from penstock.net.address import show_address
from penstock.net.budget import TurnShare
from penstock.net.tls.layered import LayeredTransport
from penstock.net.tls.layers import LayerError
from penstock.net.tls.tls_layer import TlsLayer
from penstock.nsq.nsqd.tcp.context import Context
from penstock.nsq.nsqd.tcp.lone_publishes import LonePublishes
from penstock.nsq.nsqd.tcp.outbox import Outbox
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Event, Failure, MpubLine, Nop, Publish, Ready
from penstock.nsq.protocol.frames import HEARTBEAT_FRAME, error
from penstock.nsq.protocol.identify import Identity

logger = logging.getLogger(__name__)

LINGER_S = 1.0
ABORT_S = 30.0
"""The time in seconds that a closing connection may take to send what is written."""
WRITE_HIGH_WATER = 1024 * 1024
_UNSENT_BYTES_MAX = 2 * WRITE_HIGH_WATER
_HELD_BYTES_MAX = 8 * 1024 * 1024

# What may go ahead of owed answers. A publish joins them; FIN, REQ and TOUCH may fail with a frame.
_NEVER_ANSWERED = frozenset((MpubLine, Publish, Ready, Nop))

Handlers = dict[type, Callable[[Any, Any], None]]


class Effects(Protocol):
    """The effects of a connection's commands, and of its ups and downs."""

    handlers: ClassVar[Handlers]
    """The function for each type of event. It is called with this object and the event."""

    def publish_lone(self, command: str, name: str, body: bytes) -> bool:
        """Publish a message that the parser has not looked at; False if it must."""
        ...

    def set_writable(self, writable: bool) -> None:
        """The client reads what it is sent, or has stopped to."""
        ...

    def ended(self) -> None:
        """Neither commands nor messages from now on; what is written may still go out."""
        ...

    def lost(self) -> None:
        """The socket is closed."""
        ...


class Connection(asyncio.Protocol):
    """A client's connection. ``session`` makes its session once it is made."""

    session: Effects

    def __init__(self, context: Context, session: Callable[[Connection], Effects]) -> None:
        self.context = context
        self._make_session = session
        self.clock = context.node.clock
        self.reader = CommandReader(
            context.limits, expect_magic=True, tls_required=context.tls_required
        )
        self.lone = LonePublishes(context.limits.max_msg_size, context.limits.max_body_size)
        self.tls: TlsLayer | None = None
        self.compression = ""  # or "snappy", "deflate"
        self.connected_ns = self.clock.wall_ns()
        self.heard_ns = self.clock.monotonic_ns()
        """The time of the newest commands."""
        self._greeted = False
        self.owed = 0
        """Publishes that are not answered yet."""
        self._held: Event | None = None  # the next to be handled
        self._suspended = False
        self._choked = False  # the client does not read its answers
        self._eof = False
        self.has_ended = False
        self._blocked_since: int | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._share = TurnShare(context.node.turns, self._on_turn, self._on_late)

    # --- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.remote_address = show_address(transport.get_extra_info("peername") or "")
        ip = self.remote_address.rpartition(":")[0].strip("[]")
        self.identity = Identity.unknown(ip, self.context.limits)
        self.outbox = Outbox(self.transport, self.identity.output_buffer_size,
                             self.identity.output_buffer_timeout)  # fmt: skip
        logger.info("TCP: new client(%s)", self.remote_address)
        loop = asyncio.get_running_loop()
        # nsqd waits for ever for the magic, and such a socket even blocks its exit.
        patience_s = self.context.options.magic_timeout / SECOND
        self._beat = loop.call_later(patience_s, self._on_no_magic)
        self.session = self._make_session(self)

    def layered(self) -> LayeredTransport:
        """The connection's transport with room for layers; from now on all goes through it."""
        if not isinstance(self.transport, LayeredTransport):
            self.transport = LayeredTransport(self.transport, self, self._on_garbage)
            self.outbox.use(self.transport)
        return self.transport

    @property
    def is_tls(self) -> bool:
        """True if TLS protects the connection."""
        return self.tls is not None

    @property
    def tls_common_name(self) -> str:
        """The common name in the client's certificate; empty without one."""
        return "" if self.tls is None else self.tls.peer_name

    def _on_garbage(self, error: LayerError) -> None:
        logger.error("client(%s) - failed to read command - %s", self.remote_address, error)
        self.close()

    def data_received(self, data: bytes) -> None:
        lone = self.lone.find(data)
        if lone is not None and self._is_at_a_command and self.session.publish_lone(*lone):
            return
        if self.has_ended:
            return
        self.reader.receive_data(data)
        if not self._waits:
            self._read()
        if self.reader.unread or self._share.held or self._blocked_since is not None:
            self._weigh()

    def _weigh(self) -> None:
        """Count what was read and not understood yet; stop reading if it is too much.

        A connection of which nothing is left, neither unread nor unsent, has nothing to weigh.
        """
        unread = self.reader.unread
        if (unread or self._share.held) and not self.has_ended:
            self._share.hold(unread)
        if not self._may_hear():
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._eof = True
        self._end_if_over()
        # Keep the way back open for what is owed.
        return (self.owed > 0 or self._waits) and not self.has_ended

    def connection_lost(self, exc: Exception | None) -> None:
        self.session.lost()
        if not self._greeted:
            logger.error("failed to read protocol version - %s", exc or "EOF")
        self._end()
        self._schedule_beat(0)
        self.outbox.close()
        del self.session  # or the two would wait for the garbage collector, which seldom comes
        logger.info("PROTOCOL(V2): [%s] exiting ioloop", self.remote_address)

    def pause_writing(self) -> None:
        self._blocked_since = self.clock.monotonic_ns()
        self.session.set_writable(False)

    def resume_writing(self) -> None:
        self._blocked_since = None
        self.session.set_writable(True)
        if self._choked:
            self._choked = False
            if not self._waits:
                self._go_on()
        elif not self._waits:
            self._hear()

    @property
    def _waits(self) -> bool:
        """True if no command may be handled now."""
        return self._held is not None or self._suspended or self._choked

    @property
    def _is_at_a_command(self) -> bool:
        """True if the next byte begins a command that may be handled at once."""
        is_slow = self._blocked_since is not None or self._share.held
        return not (self._waits or self.has_ended or is_slow) and self.reader.is_at_a_command

    def _may_hear(self) -> bool:
        """True if the client may be read from."""
        if self._share.waits:
            return False
        return not ((self._waits or self._blocked_since is not None) and self._is_overfull())

    def _hear(self) -> None:
        """Resume reading, unless the client waits for its turn."""
        if not self._share.waits:
            self.transport.resume_reading()

    def _on_turn(self) -> None:
        """Resume reading, as it is the client's turn to use the memory for requests."""
        if not self.has_ended and self._may_hear():
            self.transport.resume_reading()

    def _on_late(self) -> None:
        """End a client that stalls in the middle of a command while others wait for its room."""
        if self._waits:
            return  # the delay is ours
        logger.error("client(%s) - its command takes too long while %s is used up",
                     self.remote_address, self._share.budget.flag)  # fmt: skip
        failure = self.reader.eof()
        if failure is None:
            self.close()
        else:
            self.fail(failure.text)

    def _is_overfull(self) -> bool:
        """True if many bytes wait, of the client's commands or of answers that it does not read."""
        unsent = self.transport.get_write_buffer_size()
        return self.reader.unread > _HELD_BYTES_MAX or unsent > _UNSENT_BYTES_MAX

    # --- commands ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Handle the commands that have come, up to one that must wait."""
        event, self._held = self._held, None
        if event is None:
            event = self.reader.next_event()
        if not self._greeted and self.reader.greeted:
            self._greeted = True
            self.heard_ns = self.clock.monotonic_ns()
            self._schedule_beat(self.identity.heartbeat_interval)
        if event is None:
            return
        self.heard_ns = self.clock.monotonic_ns()
        session, next_event = self.session, self.reader.next_event
        handlers = session.handlers
        while event is not None:
            kind = type(event)
            if self._suspended or (self.owed and kind not in _NEVER_ANSWERED):
                self._held = event
                return
            handlers[kind](session, event)
            if self.has_ended or self._suspended or self._held is not None:
                return
            if self._blocked_since is not None and self._is_overfull():
                self._choked = True
                return
            event = next_event()

    def suspend(self, again: Event | None = None) -> None:
        """Handle no further command until ``resume`` is called; for handlers.

        A handler that must wait for something asynchronous calls this and returns; ``again`` (its
        own event, usually) is then the first to be handled after ``resume``. Meanwhile answers that
        are owed go out, what the client sends is held, within bounds, and its silence is not
        counted. The connection may end while suspended, which makes ``resume`` do nothing; a client
        that only closed its sending side still gets its answers.
        """
        assert not self._waits, "one wait at a time"
        self._suspended = True
        self._held = again

    def resume(self, instead: Event | None = None) -> None:
        """Go on after ``suspend``, with an event in the place of what waits if one is given.

        Call it from the loop, not from within the handler.
        """
        if self.has_ended or not self._suspended:
            return
        self._suspended = False
        self._held = instead or self._held
        self._go_on()

    def answered(self) -> None:
        """An owed answer was given: go on when it was the last and a command waited for it."""
        if self.owed or self._suspended:
            return
        if self._held is not None:
            self._go_on()
        elif self._eof:
            self._end_if_over()

    def _go_on(self) -> None:
        if self._held is not None or self.reader.unread:
            self._read()
        if self._share.held and not self.has_ended:
            self._share.hold(self.reader.unread)
        if not self._waits and not self.has_ended:
            self._hear()
        self._end_if_over()

    def _end_if_over(self) -> None:
        """End a connection whose client sends no more, once it has all its answers."""
        if not self._eof or self.owed or self._waits or self.has_ended:
            return
        failure = self.reader.eof()
        if failure is not None:
            self.fail(failure.text)
        else:
            self.transport.close()

    # --- the end -------------------------------------------------------------------------------

    def fail_in_turn(self, text: str) -> None:
        """Fail, but after the answers that are owed."""
        if self.owed:
            self._held = Failure(text.partition(" ")[0], text, True, "")
        else:
            self.fail(text)

    def fail(self, text: str) -> None:
        """End the connection with an error: its frame goes out, then both sides close."""
        if self.has_ended:
            return
        logger.error("client(%s) - %s", self.remote_address, text)
        self._end()
        self.outbox.send(error(text))
        if self.transport.can_write_eof():
            # Closing with unread input would reset the connection, and the frame be lost with it.
            with suppress(OSError):  # the client has left already
                self.transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()

    def close(self) -> None:
        """End the connection without a word: the channel is deleted, or nsqd stops."""
        if not self.has_ended:
            self._end()
            self.outbox.flush()
            self.transport.close()

    def _end(self) -> None:
        """Neither commands nor messages from now on; by force if the client does not read."""
        if self.has_ended:
            return
        self.has_ended = True
        self._held = None
        self.reader.forget()
        self._share.close()
        self._schedule_beat(0)
        self._beat = asyncio.get_running_loop().call_later(ABORT_S, self.transport.abort)
        self.session.ended()

    # --- heartbeats ----------------------------------------------------------------------------

    def _schedule_beat(self, interval_ns: int) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        if interval_ns:
            loop = asyncio.get_running_loop()
            self._beat = loop.call_later(interval_ns / SECOND, self._on_beat)

    def pause_heartbeats(self) -> None:
        """Send none until ``resume_heartbeats``; somebody else watches the client meanwhile."""
        self._schedule_beat(0)

    def resume_heartbeats(self) -> None:
        """Send them again, or at another interval."""
        if not self.has_ended:
            self._schedule_beat(self.identity.heartbeat_interval)

    def _on_beat(self) -> None:
        interval = self.identity.heartbeat_interval
        now = self.clock.monotonic_ns()
        if self._blocked_since is not None and now - self._blocked_since > interval:
            logger.error("client(%s) - does not read, closing", self.remote_address)
            self.transport.abort()
            return
        waits = self._waits or self._share.waits
        if not waits and now - self.heard_ns >= 2 * interval and not self._beats_late():
            self._time_out()
            return
        self.outbox.send(HEARTBEAT_FRAME)
        self._schedule_beat(interval)

    def _beats_late(self) -> bool:
        """True if nsqd itself was held up: the client may have answered, or had no cause to."""
        assert self._beat is not None
        late_s = asyncio.get_running_loop().time() - self._beat.when()
        return late_s * SECOND > self.identity.heartbeat_interval / 2

    def _time_out(self) -> None:
        failure = self.reader.eof()
        if failure is not None:
            self.fail(failure.text)
        else:
            logger.error("client(%s) - heartbeat timeout", self.remote_address)
            self.close()

    def _on_no_magic(self) -> None:
        patience = format_duration(self.context.options.magic_timeout)
        logger.error("client(%s) - no protocol magic within %s", self.remote_address, patience)
        self._greeted = True  # enough was said
        self.close()

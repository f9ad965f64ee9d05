"""The bytes and the time of one TCP connection of nsqd: reading, flow, heartbeats, end.

Commands are taken one by one from the reader and handed to the connection's session. A command may
have to wait: until the publishes before it have their answers, which leave in the order of the
commands, or until its handler, having suspended the connection, says so. What the client sends
meanwhile is held, and when that is much it is not read from the socket any more.

Theory of operation. ``phase`` says what becomes of the next command:

    phase         event                                               then
    HANDLING      a command whose answer must follow others owed      BEHIND; it is ``_next``
    BEHIND        the last of the answers owed                        HANDLING, ``_next`` first
    HANDLING      ``suspend``, by a command's handler                 SUSPENDED
    SUSPENDED     ``resume``                                          HANDLING, ``_next`` first
    HANDLING      the client reads no answers, and many are unsent    CHOKED
    CHOKED        it reads them again                                 HANDLING
    any           ``fail``, ``close``, the socket is closed           ENDED

The socket is read from while no ``Pause`` holds, in any phase.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, Flag, auto
from typing import Any, ClassVar, Final, Protocol, cast

from penstock import lane
from penstock.core.errors import StorageError
from penstock.core.units import SECOND, format_duration
from penstock.net.address import show_address
from penstock.net.budget import MemoryTurn
from penstock.net.tls.layered import LayeredTransport
from penstock.net.tls.layers import LayerError
from penstock.net.tls.tls_layer import TlsLayer
from penstock.nsq.nsqd.tcp.context import Context
from penstock.nsq.nsqd.tcp.outbox import Outbox
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Event, Failure, MpubLine, Nop, Publish, Ready
from penstock.nsq.protocol.frames import HEARTBEAT_FRAME, OK_FRAME, error
from penstock.nsq.protocol.identify import Identity
from penstock.nsq.protocol.params import parse_name
from penstock.storage.batch import Buffer

logger = logging.getLogger(__name__)

# For a client that goes on sending after an error: it can read the frame in this time.
LINGER_S = 1.0
ABORT_S = 30.0
"""The time in seconds that a closing connection may take to send what is written."""
WRITE_HIGH_WATER = 1024 * 1024
# At the high-water mark messages stop; answers to publishes go on up to this.
_UNSENT_BYTES_MAX = 2 * WRITE_HIGH_WATER
_HELD_BYTES_MAX = 8 * 1024 * 1024

# What may go ahead of owed answers. A publish joins them; FIN, REQ and TOUCH may fail with a frame.
_NEVER_ANSWERED = frozenset((MpubLine, Publish, Ready, Nop))


class Phase(Enum):
    """The phases of a connection, by what its next command waits for."""

    HANDLING = auto()  # for nothing
    BEHIND = auto()  # for the answers that are owed to publishes before it
    SUSPENDED = auto()  # for something that the handler of an earlier one has begun
    CHOKED = auto()  # for the client to read its answers
    ENDED = auto()  # it is dropped; what is written may still go out


class Pause(Flag):
    """The reasons not to read from a client."""

    TURN = auto()
    """Requests use up the memory for them, and it is not the client's turn."""
    FULL = auto()
    """Many bytes wait, of commands that are not handled or of answers that it does not read."""


# Found faster than members of their class.
HANDLING: Final = Phase.HANDLING
ENDED: Final = Phase.ENDED

Handlers = dict[type, Callable[[Any, Any], None]]


class Effects(Protocol):
    """The effects of a connection's commands, and of its ups and downs."""

    handlers: ClassVar[Handlers]
    """The function for each type of event. It is called with this object and the event."""
    takes_plain: ClassVar[bool]
    """True if a plain publish is not looked at by itself."""

    def count(self, topic: str, messages: int) -> None:
        """Count messages that are published to a topic."""
        ...

    def published(
        self, command: str, turn: int, failure: StorageError | None, count: int = 1
    ) -> None:
        """Answer publishes from this number on, in their turn."""
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


class Connection(lane.Commands, asyncio.Protocol):
    """A client's connection. ``session`` makes its session once it is made."""

    def __init__(self, context: Context, session: Callable[[Connection], Effects]) -> None:
        self.context = context
        self._make_session = session
        self.clock = context.node.clock
        self.reader = CommandReader(
            context.limits, expect_magic=True, tls_required=context.tls_required
        )
        self.tls: TlsLayer | None = None
        self.compression = ""  # or "snappy", "deflate"
        self.connected_ns = self.clock.wall_ns()
        self.heard_ns = self.clock.monotonic_ns()
        """The time of the newest commands."""
        self._greeted = False
        self.phase = Phase.HANDLING
        self.owed = 0
        """Publishes that are not answered yet."""
        self.told = 0
        """Publishes that are answered."""
        self.early: dict[int, tuple[str, StorageError | None, int]] = {}
        """Outcomes that wait for earlier answers, with their count, by the first one's number."""
        self.behind: list[Buffer] = []
        """Messages that wait for an answer that is owed."""
        self.pub_counts: dict[str, int] = {}
        """Messages published, by topic."""
        self._next: Event | None = None  # the first to be handled when the phase ends
        self.is_at_end = False
        self.blocked_since: int | None = None
        self._pauses = Pause(0)
        self._beat: asyncio.TimerHandle | None = None
        self.turn = MemoryTurn(context.node.turns, self._on_turn, self._on_late)

    # --- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.remote_address = show_address(transport.get_extra_info("peername") or "")
        # The IP without a port is client_id and hostname until IDENTIFY (NSQ spec 1.4).
        ip = self.remote_address.rpartition(":")[0].strip("[]")
        self.identity = Identity.unknown(ip, self.context.limits)
        self.outbox = Outbox(
            self.transport, self.identity.output_buffer_size, self.identity.output_buffer_timeout
        )
        logger.info("TCP: new client(%s)", self.remote_address)
        loop = asyncio.get_running_loop()
        # nsqd waits for ever for the magic, and such a socket even blocks its exit.
        patience_s = self.context.options.magic_timeout / SECOND
        # Heartbeats begin with the magic, so this timer has their place until then.
        self._beat = loop.call_later(patience_s, self._on_no_magic)
        self.session = self._make_session(self)
        publisher, limits = self.context.publisher, self.context.limits
        if publisher is not None and self.session.takes_plain:
            clock_ns = self.clock.monotonic_ns
            self.take_plain(publisher, HANDLING, OK_FRAME, parse_name, clock_ns, limits)

    def layered(self) -> LayeredTransport:
        """The connection's transport with room for layers; from now on all goes through it."""
        if not isinstance(self.transport, LayeredTransport):
            self.transport = LayeredTransport(self.transport, self, self._on_garbage)
            if self._pauses:
                self.transport.pause_reading()
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

    def parse(self, data: bytes) -> None:
        if self.phase is ENDED:
            return
        self.reader.receive_data(data)
        if self.phase is HANDLING:
            self._read()
        if self.reader.unread or self.turn.held or self.blocked_since is not None:
            self._weigh()

    def _weigh(self) -> None:
        """Count what was read and not understood yet; stop reading if it is too much.

        A connection of which nothing is left, neither unread nor unsent, has nothing to weigh.
        """
        if self.phase is ENDED:
            return
        if self.reader.unread or self.turn.held:
            self._weigh_unread()
        is_slow = self.phase is not HANDLING or self.blocked_since is not None
        if is_slow and self._is_overfull():
            self._pause(Pause.FULL)

    def _weigh_unread(self) -> None:
        if self.turn.hold(self.reader.unread):
            self._unpause(Pause.TURN)
        else:
            self._pause(Pause.TURN)

    def _pause(self, reason: Pause) -> None:
        if not self._pauses:
            self.transport.pause_reading()
        self._pauses |= reason

    def _unpause(self, reason: Pause) -> None:
        if self._pauses:
            self._pauses &= ~reason
            if not self._pauses:
                self.transport.resume_reading()

    def eof_received(self) -> bool:
        # The client may only have ended its sending, and still read answers (NSQ spec 1.1).
        self.is_at_end = True
        self._end_if_over()
        # Keep the way back open for what is owed.
        waits = self.owed > 0 or self.phase is not HANDLING
        return waits and self.phase is not ENDED

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
        self.blocked_since = self.clock.monotonic_ns()
        # Go's messagePump would block in its write here: no more messages until the client reads.
        self.session.set_writable(False)

    def resume_writing(self) -> None:
        self.blocked_since = None
        self.session.set_writable(True)
        if self.phase is Phase.CHOKED:
            self._go_on()
        # Behind answers or suspended it stays paused until ``_go_on``.
        elif self.phase is HANDLING or self.phase is ENDED:
            self._unpause(Pause.FULL)

    def _on_turn(self) -> None:
        """Resume reading, as it is the client's turn to use the memory for requests."""
        self._unpause(Pause.TURN)

    def _on_late(self) -> None:
        """End a client that stalls in the middle of a command while others wait for its room."""
        if self.phase is not HANDLING:
            return  # the delay is ours
        logger.error(
            "client(%s) - its command takes too long while %s is used up",
            self.remote_address,
            self.turn.budget.flag,
        )
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
        event, self._next = self._next, None
        if event is None:
            event = self.reader.next_event()
        if not self._greeted and self.reader.greeted:
            self._greeted = True
            self.heard_ns = self.clock.monotonic_ns()
            # In place of the timer that waits for the magic.
            self._schedule_beat(self.identity.heartbeat_interval)
        if event is None:
            return
        # Once for all commands of a read: they came together.
        self.heard_ns = self.clock.monotonic_ns()
        session, next_event = self.session, self.reader.next_event
        handlers = session.handlers
        while event is not None:
            kind = type(event)
            if self.owed and kind not in _NEVER_ANSWERED:
                self._next = event
                self.phase = Phase.BEHIND
                return
            handlers[kind](session, event)
            if self.phase is not HANDLING:
                return
            if self.blocked_since is not None and self._is_overfull():
                self.phase = Phase.CHOKED
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
        assert self.phase is HANDLING, "one wait at a time"
        self.phase = Phase.SUSPENDED
        self._next = again

    def resume(self, instead: Event | None = None) -> None:
        """Go on after ``suspend``, with an event in the place of what waits if one is given.

        Call it from the loop, not from within the handler.
        """
        if self.phase is Phase.SUSPENDED:
            self._next = instead or self._next
            self._go_on()

    def answered(self) -> None:
        """An owed answer was given: go on when it was the last and a command waited for it."""
        if self.owed:
            return
        if self.phase is Phase.BEHIND:
            self._go_on()
        elif self.is_at_end:
            self._end_if_over()

    def _go_on(self) -> None:
        """Handle commands again: what they have waited for is there."""
        self.phase = Phase.HANDLING
        if self._next is not None or self.reader.unread:
            self._read()
        if self.turn.held and self.phase is not ENDED:
            self._weigh_unread()
        if self.phase is HANDLING:
            self._unpause(Pause.FULL)
        self._end_if_over()

    def _end_if_over(self) -> None:
        """End a connection whose client sends no more, once it has all its answers."""
        if not self.is_at_end or self.owed or self.phase is not HANDLING:
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
            self._next = Failure(text.partition(" ")[0], text, True, "")
            self.phase = Phase.BEHIND
        else:
            self.fail(text)

    def fail(self, text: str) -> None:
        """End the connection with an error: its frame goes out, then both sides close."""
        if self.phase is ENDED:
            return
        logger.error("client(%s) - %s", self.remote_address, text)
        self._end()
        # The channel was given back first, so that no message follows the frame.
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
        if self.phase is not ENDED:
            self._end()
            self.outbox.flush()
            self.transport.close()

    def _end(self) -> None:
        """Neither commands nor messages from now on; by force if the client does not read."""
        if self.phase is ENDED:
            return
        self.phase = Phase.ENDED
        self._next = None
        self.reader.forget()
        self.turn.close()
        self._pauses &= ~Pause.TURN
        self._schedule_beat(0)
        # ``close`` waits for the unsent, which a client that reads nothing would keep for ever.
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
        if self.phase is not ENDED:
            self._schedule_beat(self.identity.heartbeat_interval)

    def _on_beat(self) -> None:
        interval = self.identity.heartbeat_interval
        now = self.clock.monotonic_ns()
        # Go's write deadline, which is the heartbeat interval too (NSQ spec 1.9).
        if self.blocked_since is not None and now - self.blocked_since > interval:
            logger.error("client(%s) - does not read, closing", self.remote_address)
            self.transport.abort()
            return
        # While its commands wait here, a client's silence says nothing about it.
        is_heard = self.phase is HANDLING and not self.turn.waits
        if is_heard and now - self.heard_ns >= 2 * interval and not self._beats_late():
            self._time_out()
            return
        # V2 protocol: to every connection, also to producers and before IDENTIFY (NSQ spec 1.9).
        self.outbox.send(HEARTBEAT_FRAME)
        self._schedule_beat(interval)

    def _beats_late(self) -> bool:
        """True if nsqd itself was held up: the client may have answered, or had no cause to."""
        assert self._beat is not None
        late_s = asyncio.get_running_loop().time() - self._beat.when()
        return late_s * SECOND > self.identity.heartbeat_interval / 2

    def _time_out(self) -> None:
        # The deadline covers bodies: one that is cut short has its error frame (NSQ spec 1.9).
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

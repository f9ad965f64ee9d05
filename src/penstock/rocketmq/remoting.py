"""Connections of the remoting protocol on asyncio: frames in, a handler's answers out.

The first byte of a connection tells whether it is TLS: no frame is so long that it begins with one
of TLS (RocketMQ spec 1.1).

A peer that does not read its answers is asked for nothing more: its requests wait, from the first
that finds ``WRITE_HIGH_WATER`` bytes unsent on. All unsent answers count in one budget. When that
is used up, requests with large answers wait for their turn.

What holds a peer up, besides the end (``Pause`` is why it is not read from):

    it reads no answers           none of its requests is taken    until it reads them
    answers use up the memory     those with large answers wait    until its turn
    requests use up the memory    it is not read from              until its turn

A handler returns the answer at once, or None and sends it later with ``Connection.send``, as a pull
that waits for messages. Either side may ask: ``Connection.invoke`` asks the client and waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from enum import Flag, auto
from typing import TYPE_CHECKING, Final, Protocol, cast

from penstock import lane
from penstock.core.errors import PenstockError
from penstock.net.address import show_address
from penstock.net.budget import SMALL, Memory, MemoryQueue, MemoryTurn
from penstock.net.tls.layered import LayeredTransport
from penstock.net.tls.layers import LayerError
from penstock.net.tls.tls_layer import ServerTls
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError, FrameError
from penstock.rocketmq.protocol.ids import NO_HOST, Host

if TYPE_CHECKING:  # which brings numpy in, and a name server needs none
    from penstock.storage.batch import Buffer

IDLE_S: Final = 120.0
"""A connection that neither sends nor receives for this time is closed, as in Java."""
WRITE_HIGH_WATER: Final = 256 * 1024
TOGETHER_MAX: Final = 32
"""The number of requests that are read at once; the answers known by then leave with one write, so
that the peer has something to do meanwhile."""
WAITING_MAX: Final = 1000
"""Questions to one client that may be unanswered."""
_TLS_FIRST_BYTE: Final = 0x16

logger = logging.getLogger("penstock.rocketmq.remoting")


class NoAnswerError(PenstockError):
    """A client that was asked is gone, or did not answer in time."""


class LateAnswerError(NoAnswerError):
    """A client that was asked is there, but did not answer in time."""


class Handler(Protocol):
    """The handler of a server's requests."""

    def handle(self, connection: Connection, request: Command) -> Command | None:
        """The answer; None when it comes later or never. May raise BodyError."""
        ...

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


class ReadBatcher(Protocol):
    """A collector that handles all that a connection has read as one unit."""

    def hold(self) -> None:
        """A connection begins to take what it has read."""
        ...

    def release(self) -> bool:
        """A connection has taken all; true if requests are answered later in this pass."""
        ...


class Pause(Flag):
    """The reasons not to read from a peer."""

    TURN = auto()
    """Requests use up the memory for them, and it is not the peer's turn."""
    FULL = auto()
    """Requests wait for room for their answers, or the peer does not read those that it has."""


class RemotingServer:
    """Shared state of connections; its instance is the protocol factory for ``net.tcp.listen``.

    With ``tls`` clients may begin with TLS, with ``tls_only`` they must.
    """

    def __init__(
        self,
        handler: Handler,
        idle_s: float = IDLE_S,
        *,
        tls: ServerTls | None = None,
        tls_only: bool = False,
        gatherer: ReadBatcher | None = None,
        turns: MemoryQueue | None = None,
        answer_turns: MemoryQueue | None = None,
        large_answers: Collection[int] = (),
    ) -> None:
        """``large_answers`` are the codes of requests that wait when the budget is used up."""
        self.handler = handler
        self.turns = turns or MemoryQueue(Memory.of().requests)
        self.answer_turns = answer_turns or MemoryQueue(Memory.of().answers)
        self.large_answers = frozenset(large_answers)
        self.gatherer = gatherer
        self.idle_s = idle_s
        self.tls = tls
        self.tls_only = tls_only
        self.connections: dict[Connection, None] = {}

    def __call__(self) -> Connection:
        return Connection(self)

    def close_connections(self) -> None:
        """End every connection."""
        for connection in list(self.connections):
            connection.close()


class Connection(lane.Sends, asyncio.Protocol):
    """One peer. ``address`` is its ``ip:port`` and ``host`` the same in bytes."""

    def __init__(self, server: RemotingServer) -> None:
        self._server = server
        self.reader = frames.FrameReader()
        self.outgoing: list[Buffer] = []
        self._outgoing_large = 0  # bytes of the large ones among them
        self.left: list[Command] = []  # read, to be taken when the answers before are sent
        self._pauses = Pause(0)
        self.is_reading = False
        self.flushes_soon = False
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, asyncio.Future[Command]] = {}
        self._next_opaque = 0
        self.is_active = False
        self.has_begun = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._turn = MemoryTurn(server.turns, self._on_turn, self._on_late)
        self._unsent = MemoryTurn(server.answer_turns, self._on_answer_turn, self._on_unread)
        self.serialization = Serialization.JSON
        """The peer's header encoding; requests to it use the same."""
        self.is_congested = False
        """True if the peer reads more slowly than it is written to."""
        self.address = ""
        self.host = NO_HOST

    # --- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        # Above this asyncio calls pause_writing, and the peer's requests wait.
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        peer: tuple[str, int] | None = transport.get_extra_info("peername")
        # A peer that has reset the connection already has no address.
        self.address = show_address(peer or "")
        if peer:
            self.host = Host.of(*peer[:2])
        self._server.connections[self] = None
        self._watch_idleness()
        self._server.handler.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._server.connections.pop(self, None)
        self._turn.close()
        self._unsent.close()
        self.left.clear()
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(NoAnswerError(f"{self.address} is gone"))
        self._server.handler.disconnected(self)

    def parse(self, data: bytes) -> None:
        if not self.has_begun:
            self.has_begun = True
            if not self._begin(data):
                return
        self.is_active = True
        self.reader.feed(data)
        self._take_all()

    def _take_all(self) -> None:
        """Take what was read, as long as the peer reads what it is answered."""
        if self.transport.is_closing():
            return
        self._take_commands()
        unread = self.reader.unread
        # With nothing unread, too: what it held before is given back to the others.
        if unread or self._turn.held:
            if self._turn.hold(unread):
                self._unpause(Pause.TURN)
            else:
                self._pause(Pause.TURN)
        if self._unsent.waits:
            self._pause(Pause.FULL)

    def _pause(self, reason: Pause) -> None:
        if not self._pauses:
            self.transport.pause_reading()
        self._pauses |= reason

    def _unpause(self, reason: Pause) -> None:
        if self._pauses:
            self._pauses &= ~reason
            if not self._pauses and not self.transport.is_closing():
                self.transport.resume_reading()

    def _on_turn(self) -> None:
        """Resume reading, as it is the peer's turn to use the memory for requests."""
        self._unpause(Pause.TURN)

    def _on_answer_turn(self) -> None:
        """Take the requests that waited, as it is the peer's turn to use the memory for answers."""
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Take what was left, and read from the peer again unless it still has to wait."""
        if self.is_congested or self._unsent.waits:
            return
        if self.left or self.reader.unread:
            self._take_all()
        if not self.is_congested and not self._unsent.waits:
            self._unpause(Pause.FULL)

    @property
    def has_room(self) -> bool:
        """True if a large answer may be sent now."""
        waits = self.is_congested or self._unsent.waits
        return not waits and not self._unsent.budget.is_used_up

    def take_again(self, request: Command) -> None:
        """Take a request again when there is room for its answer."""
        self.left.append(request)
        self._loop.call_soon(self._go_on)

    def _weigh_answers(self) -> None:
        """Update the share of unsent answers after they were written, or read by the peer.

        It is empty unless the peer is congested: nothing tells when less than that has been sent.
        """
        waited = self._unsent.waits
        self._unsent.hold(self.transport.get_write_buffer_size() if self.is_congested else 0)
        if waited and not self._unsent.waits:  # it has left the queue, so its turn will not come
            self._loop.call_soon(self._go_on)

    def _on_unread(self) -> None:
        """End a peer that reads none of its answers while others wait for its room."""
        held = self._unsent.held
        self._weigh_answers()
        # Anything that it has read since counts: a slow peer is not a dead one.
        if self._unsent.held >= held:
            logger.warning(
                "%s does not read its answers while %s is used up, closing",
                self.address,
                self._unsent.budget.flag,
            )
            # Not close(): that would wait for what is unsent, which is just what this peer does not
            # read.
            self.transport.abort()

    def _on_late(self) -> None:
        """End a peer that stalls in the middle of a frame while others wait for its room."""
        # A peer that we do not read from is not late: its frame may wait in the socket.
        if not self.is_congested and not self._unsent.waits:
            logger.warning(
                "%s takes too long for a frame while %s is used up, closing",
                self.address,
                self._turn.budget.flag,
            )
            self.close()

    def _take_commands(self) -> None:
        self.is_reading = True
        gatherer = self._server.gatherer
        if gatherer is not None:
            gatherer.hold()
        failure: FrameError | None = None
        try:
            while not self.is_congested and (commands := self._next_commands()):
                self._take_each(commands)
                if self.left:
                    break
                if len(commands) == TOGETHER_MAX:
                    self.flush()
        except FrameError as error:
            failure = error
        finally:
            # Answers that come with the commit, later in this pass, share the write of those made
            # here.
            if gatherer is not None and gatherer.release():
                self.flush_soon()
            self.is_reading = False
            if not self.flushes_soon:
                self.flush()
            if self._server.answer_turns.first is self._unsent:
                self._weigh_answers()  # its turn ends with small answers, too
        # Only here: the requests before the bad frame were whole, and their answers leave first.
        if failure is not None:
            logger.warning("%s sent %s, closing", self.address, failure)
            self.close()

    def _next_commands(self) -> list[Command]:
        left, self.left = self.left, []
        return left or self.reader.next_commands(TOGETHER_MAX)

    def _take_each(self, commands: list[Command]) -> None:
        """Take commands as long as there is room for their answers; the others are left, behind
        those that are to be taken again.
        """
        server = self._server
        is_short = server.answer_turns.budget.is_used_up
        rest = iter(commands)
        for command in rest:
            if is_short and command.code in server.large_answers and not self._unsent.try_take():
                self.left += [command, *rest]
                return
            self._take(command)
            if self.is_congested:
                self.left += rest
                return

    def _begin(self, data: bytes) -> bool:
        """Begin as the first bytes say: start TLS, or end a connection that may not do without or
        with it. True if these are plain requests.
        """
        tls = self._server.tls
        if data[0] == _TLS_FIRST_BYTE and tls is not None:
            layered = LayeredTransport(self.transport, self, self._end_tls)
            self.transport = layered
            # These bytes are the start of the ClientHello, so the layer has to see them.
            layered.start_tls(tls.layer(), data, self._end_tls)
            return False
        if data[0] == _TLS_FIRST_BYTE:
            logger.warning("%s wants TLS, which is off here, closing", self.address)
        elif self._server.tls_only:
            logger.warning("%s does not speak TLS, which it must here, closing", self.address)
        else:
            return True
        self.transport.close()
        return False

    def _end_tls(self, error: LayerError | None) -> None:
        """The handshake's outcome, or what broke TLS later on."""
        if error is not None:
            logger.warning("%s: TLS failed - %s, closing", self.address, error)
            self.transport.close()

    def pause_writing(self) -> None:
        self.is_congested = True
        self._pause(Pause.FULL)  # a peer that reads no answers asks no more

    def resume_writing(self) -> None:
        self.is_congested = False
        self._weigh_answers()
        # Not here: asyncio calls this in the middle of a write, and taking requests writes again.
        self._loop.call_soon(self._go_on)

    # --- requests ------------------------------------------------------------------------------

    def _take(self, command: Command) -> None:
        # Each side counts its own requests, so the flag decides before the number does: the same
        # opaque may be in flight both ways (RocketMQ spec 1.2).
        if command.is_response:
            future = self._asked.pop(command.opaque, None)
            # Whoever asked may have given up, and an answer after that finds nobody.
            if future is not None and not future.done():
                future.set_result(command)
            return
        # C++ clients cannot read the binary form (RocketMQ spec 1.4): ask in the one they used
        # last.
        self.serialization = command.serialization
        answer = self._answer(command)
        # A one-way request gets no answer, not even an error (RocketMQ spec 1.2).
        if answer is not None and not command.is_one_way:
            self.send(answer)

    def _answer(self, request: Command) -> Command | None:
        try:
            return self._server.handler.handle(self, request)
        except BodyError as error:
            # Java leaves a bad field empty and fails somewhere later (RocketMQ spec 1.3).
            return request.answer(ResponseCode.SYSTEM_ERROR, str(error))
        except PenstockError as error:
            logger.error("%s: request %d failed - %s", self.address, request.code, error)
            return request.answer(ResponseCode.SYSTEM_ERROR, str(error))

    def send(self, command: Command) -> None:
        """Send a command. What is sent in one pass of the loop leaves with one write."""
        body = command.body
        if len(body) > SMALL:
            self.send_large((frames.encode(command),), len(body))
        else:
            self.send_pieces((frames.encode(command),))

    def send_pieces(self, pieces: Iterable[Buffer]) -> None:
        """Send a command that is encoded already."""
        self.is_active = True
        self.outgoing += pieces
        if not self.is_reading:
            self.flush_soon()

    def send_large(self, pieces: Iterable[Buffer], nbytes: int) -> None:
        """Send an encoded answer with a body of this size; much of it is written at once, which
        tells whether the peer reads.
        """
        self.send_pieces(pieces)
        self._outgoing_large += nbytes
        if self._outgoing_large >= WRITE_HIGH_WATER:
            self.flush()

    def flush_soon(self) -> None:
        """Write what is sent in this pass of the loop at its end, after what is scheduled so far.

        To be called before answering later in the same pass than ``data_received``, so that the
        answers are flushed with it.
        """
        if not self.flushes_soon:
            self.flushes_soon = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self.flushes_soon = False
        outgoing, self.outgoing = self.outgoing, []
        large, self._outgoing_large = self._outgoing_large, 0
        if outgoing and not self.transport.is_closing():
            self.transport.writelines(outgoing)
            if large > SMALL:
                self._weigh_answers()

    def tell(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Ask for something without wanting an answer."""
        self.send(self._request(code, ext, body, ONE_WAY))

    async def invoke(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, seconds: float
    ) -> Command:
        """Ask the peer and wait for its answer. Raises NoAnswerError."""
        # Each waits for its time-out: a client that answers nothing must not gather them.
        if len(self._asked) >= WAITING_MAX:
            raise NoAnswerError(f"{self.address} leaves {WAITING_MAX} requests unanswered")
        request = self._request(code, ext, body, 0)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._asked[request.opaque] = future
        try:
            self.send(request)
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise LateAnswerError(f"{self.address} did not answer within {seconds:g} s") from None
        finally:
            self._asked.pop(request.opaque, None)

    def _request(self, code: int, ext: dict[str, str] | None, body: bytes, flag: int) -> Command:
        # Java reads it as a signed int.
        self._next_opaque = (self._next_opaque + 1) & 0x7FFFFFFF
        return Command(code, self._next_opaque, ext, body, flag, serialization=self.serialization)

    # --- the wire ------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection after what was sent."""
        self.flush()
        self.transport.close()

    def _watch_idleness(self) -> None:
        # One timer that looks at a flag: to move a timer with each read would cost every read. A
        # silent peer stays for one to two times idle_s.
        self.is_active = False
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(self._server.idle_s, self._end_if_idle)

    def _end_if_idle(self) -> None:
        # One that waits for its turn at the memory is silent because of us.
        if self.is_active or self._turn.waits or self._unsent.waits:
            self._watch_idleness()
        else:
            logger.info("%s was silent for %g s, closing", self.address, self._server.idle_s)
            self.close()

"""One connection without I/O: requests in, bytes out; bytes in, answers and the server's requests
out.

Answers find their requests by the number that these carry, ``opaque``, in whatever order they come.
A request that is not answered in time fails alone: the connection goes on, and an answer that comes
later is dropped. A connection on which nothing else comes either is given up.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, ClientError, TimedOut
from penstock.rocketmq.client.network.jobs import Promise
from penstock.rocketmq.client.state import ConnectionState
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import ONE_WAY, RESPONSE, Command, Serialization
from penstock.rocketmq.protocol.errors import FrameError
from penstock.rocketmq.protocol.header_binary import CODE_MAX
from penstock.rocketmq.protocol.signing import SECURITY_TOKEN, sign

_OPAQUE_MAX = 0x7FFFFFFF
_TLS_ALERT = 0x15
_SILENCE_S = 3.0
"""The shortest time-out of a request by which a connection is judged."""
PAUSE_NS = SECOND // 10
"""A shorter pause between a request and its sending is not worth a look."""


class Wire:
    """A connection, from when it is asked for until it is lost.

    What is sent before there is a connection waits; ``on_output`` is told when there is something
    to send, ``on_request`` gets what the server asks by itself.
    """

    def __init__(
        self,
        address: str,
        config: Config,
        clock: Clock,
        on_output: Callable[[Wire], object],
        on_request: Callable[[Wire, Command], object],
    ) -> None:
        self.address = address
        self.state = ConnectionState(address)
        self.is_open = False
        """True while there is a connection."""
        self.is_lost = False
        self.deadline: int | None = None
        """The time at which the first request has waited for too long."""
        self._config = config
        self._clock = clock
        self._on_output = on_output
        self._on_request = on_request
        self._reader = frames.FrameReader()
        self.nbytes_said = 0
        """Bytes that nobody has taken yet to send them."""
        self._said: list[bytes] = []
        self._said_since = 0
        self._heard_ns = 0
        self._opaque = 0
        self._asked: dict[int, tuple[int, float, Promise[Command]]] = {}

    # --- the way out -----------------------------------------------------------------------------

    def ask(self, request: Command, seconds: float) -> Promise[Command]:
        """Send a request; the promise is its answer. It fails with TimedOut, NotConnected."""
        promise = Promise[Command]()
        self._opaque = opaque = self._opaque % _OPAQUE_MAX + 1
        request.opaque = opaque
        self._send(request)
        deadline = self._clock.monotonic_ns() + int(seconds * SECOND)
        self._asked[opaque] = deadline, seconds, promise
        if self.deadline is None or deadline < self.deadline:
            self.deadline = deadline
        return promise

    def tell(self, request: Command) -> None:
        """Send a request to which there is no answer."""
        self._opaque = self._opaque % _OPAQUE_MAX + 1
        request.opaque, request.flag = self._opaque, ONE_WAY
        self._send(request)

    def answer(self, response: Command) -> None:
        """Answer a request of the server."""
        self._put(response)

    def take_output(self) -> bytes:
        """Bytes that are to be sent, all of them in one piece; perhaps none."""
        said, self._said, self.nbytes_said = self._said, [], 0
        return said[0] if len(said) == 1 else b"".join(said)

    def begin_now(self) -> None:
        """Count the time of requests that are about to be sent from now on: a blocking client may
        have been left alone with them.
        """
        now = self._clock.monotonic_ns()
        if not self._said or now - self._said_since < PAUSE_NS:
            return
        for opaque, (deadline, seconds, promise) in self._asked.items():
            # Only those that were asked since: an older request is on its way, and its time goes
            # on.
            if deadline - int(seconds * SECOND) >= self._said_since:
                self._asked[opaque] = now + int(seconds * SECOND), seconds, promise
        self._said_since = now
        self.deadline = min((asked[0] for asked in self._asked.values()), default=None)

    def _send(self, request: Command) -> None:
        config = self._config
        # Codes of popping do not fit into its 16 bits (RocketMQ spec 1.4).
        if config.serialization == "ROCKETMQ" and request.code <= CODE_MAX:
            request.serialization = Serialization.BINARY
        if config.access_key:
            if config.security_token:
                request.ext = {**(request.ext or {}), SECURITY_TOKEN: config.security_token}
            # Last: the signature is of all other fields.
            sign(request, config.access_key, config.secret_key)
        self.state.requests += 1
        self._put(request)

    def _put(self, command: Command) -> None:
        data = frames.encode(command)
        self._said.append(data)
        self.nbytes_said += len(data)
        # Told once: all that is said until it is taken leaves with one write.
        if len(self._said) == 1:
            self._said_since = self._clock.monotonic_ns()
            self._on_output(self)

    # --- the way in ------------------------------------------------------------------------------

    def opened(self, tls: str = "") -> None:
        """Note that there is a connection now."""
        self.is_open = True
        self._heard_ns = self._clock.monotonic_ns()
        self.state.tls = tls
        self.state.connected_at = self._clock.wall_ns() / SECOND
        if self._said:
            self._on_output(self)

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the server. Raises BadAnswer when they make no sense."""
        self._heard_ns = self._clock.monotonic_ns()
        reader = self._reader
        reader.feed(data)
        try:
            while (command := reader.next_command()) is not None:
                if command.flag & RESPONSE:
                    self._answered(command)
                else:
                    self._on_request(self, command)
        except FrameError as error:
            raise BadAnswer(f"{self.address}: {error}; {_guess(data)}") from None

    def _answered(self, answer: Command) -> None:
        asked = self._asked.pop(answer.opaque, None)
        state = self.state
        state.answers += 1
        state.unanswered = len(self._asked)
        state.server_version = answer.version
        if asked is not None:
            asked[2].keep(answer)

    def is_silent(self, now: int) -> bool:
        """True if a request has waited for too long, and nothing has come since it was sent: the
        way may be cut without a word, as by a firewall that has forgotten the connection.
        """
        return self.is_open and any(
            deadline <= now
            and seconds >= _SILENCE_S
            and self._heard_ns <= deadline - int(seconds * SECOND)
            for deadline, seconds, _ in self._asked.values()
        )

    def expire(self, now: int) -> None:
        """Fail what has waited for too long."""
        late = [opaque for opaque, asked in self._asked.items() if asked[0] <= now]
        promises = [self._asked.pop(opaque) for opaque in late]
        self.deadline = min((asked[0] for asked in self._asked.values()), default=None)
        for _, seconds, promise in promises:
            doing = "no answer" if self.is_open else "no connection"
            promise.fail(TimedOut(self.address, f"{doing} within {seconds:g} s"))

    def lost(self, error: ClientError) -> None:
        """Note that there is no connection, or no more; what waits fails."""
        self.is_open, self.is_lost = False, True
        self.deadline = None
        # Nobody can send it any more, and a request that has failed must not leave later.
        self.take_output()
        # First: those that wait may ask again as soon as they are told.
        asked, self._asked = self._asked, {}
        for _, _, promise in asked.values():
            promise.fail(error)


def _guess(data: bytes) -> str:
    if data.startswith(b"HTTP"):
        return "it speaks HTTP, name RocketMQ's port"
    if data[:1] == bytes((_TLS_ALERT,)):
        return "it speaks TLS, set tls_enable"
    return "name a server of RocketMQ"

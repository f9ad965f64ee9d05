"""The producer's sending, gathering and retrying, without I/O; both producers are built on it.

A ``Request`` is one command and waits for one answer. Single messages of a topic that come while
other requests are unanswered become one MPUB (``PendingPublishes``), which costs client and server
a fraction of as many PUBs. ``Router`` says which node a request goes to, and after a failure where
next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.core.errors import ConfigError
from penstock.nsq.client.errors import (
    BadBody,
    BadMessage,
    ClientError,
    DpubFailed,
    MpubFailed,
    NotConnected,
    PubFailed,
    ServerError,
)
from penstock.nsq.client.hosts import Hosts, Turn
from penstock.nsq.client.names import checked_topic
from penstock.nsq.protocol import encode

GATHERED_BYTES_MAX: Final = 512 * 1024
"""The size in bytes up to which single messages are gathered into one MPUB."""
WAITING_BYTES_MAX: Final = 64 * 1024
"""More than this does not wait for company."""
BODY_BYTES_MAX: Final = 5_000_000
"""The largest body of an MPUB; nodes take 5,242,880 bytes by default (``--max-body-size``)."""

_SIZE_BYTES: Final = 4
_OF_THE_NODE: Final = (PubFailed, MpubFailed, DpubFailed)
"""Refusals that say something of the node, not of the message: another node may take it."""


class Promise(Protocol):
    """The receiver of a publish's outcome: a future."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class Request:
    """One command. ``promises`` has one entry for each message, or one for all."""

    __slots__ = ("bodies", "delay_ms", "promises", "sent_at", "size", "topic", "tried", "turn")

    def __init__(
        self,
        topic: str,
        bodies: list[bytes],
        promises: list[Promise],
        size: int,
        delay_ms: int | None = None,
    ) -> None:
        self.topic = topic
        self.bodies = bodies
        self.promises = promises
        self.size = size
        self.delay_ms = delay_ms
        self.turn: Turn | None = None
        self.tried: list[str] = []
        self.sent_at = 0

    def command(self) -> bytes:
        """The request as bytes: PUB, DPUB or MPUB."""
        if self.delay_ms is not None:
            return encode.deferred_publish(self.topic, self.delay_ms, self.bodies[0])
        if len(self.bodies) == 1:
            return encode.publish(self.topic, self.bodies[0])
        return encode.multi_publish(self.topic, self.bodies)

    def succeed(self) -> None:
        """The node has it."""
        for promise in self.promises:
            if not promise.done():  # done before: cancelled
                promise.set_result(None)

    def fail(self, error: ClientError) -> None:
        """Give the request up."""
        for promise in self.promises:
            if not promise.done():
                promise.set_exception(error)

    def singles(self) -> list[Request]:
        """The request's messages one by one, if they were gathered."""
        return [
            Request(self.topic, [body], [promise], len(body))
            for body, promise in zip(self.bodies, self.promises, strict=True)
        ]


class PendingPublishes:
    """Requests that were not sent yet, in the order in which they came."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._open: dict[str, Request] = {}
        self._size = 0
        self._is_urgent = False

    def __bool__(self) -> bool:
        return bool(self._requests)

    @property
    def may_grow(self) -> bool:
        """True if more could still be gathered: only single messages, and not many, lie here."""
        return self._size < WAITING_BYTES_MAX and not self._is_urgent

    def add(self, topic: str, body: bytes, promise: Promise) -> None:
        """A single message, which may be gathered with others of its topic."""
        size = len(body)
        self._size += size
        request = self._open.get(topic)
        if request is not None and request.size + size <= GATHERED_BYTES_MAX:
            request.bodies.append(body)
            request.promises.append(promise)
            request.size += size
        else:
            self._open[topic] = request = Request(topic, [body], [promise], size)
            self._requests.append(request)

    def put(self, request: Request) -> None:
        """A separate command, behind what came before it."""
        self._is_urgent = True
        # A message that comes later must not be gathered ahead of this.
        self._open.pop(request.topic, None)
        self._requests.append(request)

    def take(self) -> list[Request]:
        """All of them; the pile is empty then."""
        requests, self._requests = self._requests, []
        self._open.clear()
        self._size = 0
        self._is_urgent = False
        return requests


class Router:
    """The way of requests to nodes, and what becomes of them when a node fails or refuses.

    ``resend``: whether a request whose outcome is not known, because its connection was lost, is
    sent again (at least once) or fails. ``settled`` is called with each request that has ended.
    """

    def __init__(self, hosts: Hosts, resend: bool, settled: Callable[[Request], None]) -> None:
        self.hosts = hosts
        self._resend = resend
        self._settled = settled

    def route(self, requests: Sequence[Request]) -> str:
        """The address that these go to, together; for a request that was tried, another one."""
        turn = self.hosts.take(requests[0].tried)
        for request in requests:
            request.turn = turn
        return turn.address

    def succeeded(self, request: Request) -> None:
        """The node has it."""
        assert request.turn is not None
        request.turn.succeeded()
        request.succeed()
        self._settled(request)

    def fail(self, request: Request, error: ClientError) -> None:
        """Give a request up."""
        request.fail(error)
        self._settled(request)

    def lost(
        self, requests: Sequence[Request], error: ClientError, *, was_sent: bool
    ) -> list[Request]:
        """The node of these cannot be reached, or not any more; returns what to send again."""
        again = []
        for request in requests:
            self._mark_failed(request)
            unknown = was_sent and not self._resend
            # One try more than hosts: even a single node's lost connection is replaced once.
            if unknown or len(request.tried) > len(self.hosts.hosts):
                self.fail(request, error)
            else:
                again.append(request)
        return again

    def refused(self, request: Request, error: ServerError) -> list[Request]:
        """The node has refused this; returns what to send again.

        One bad message spoils an MPUB. When it was us who gathered it, each message is sent by
        itself, so that only the bad one fails.
        """
        if isinstance(error, _OF_THE_NODE):
            self._mark_failed(request)
            if len(request.tried) < len(self.hosts.hosts):
                return [request]
        elif isinstance(error, BadMessage | BadBody) and len(request.promises) > 1:
            return request.singles()
        self.fail(request, error)
        return []

    def behind(self, requests: Sequence[Request], error: ServerError) -> list[Request]:
        """Sort requests that were sent behind one that was refused, which ended their connection;
        returns what to send again.

        A node that could not store one publish may have stored others of the same moment.
        """
        if self._resend or not isinstance(error, _OF_THE_NODE):
            return list(requests)
        for request in requests:
            assert request.turn is not None
            ended = f"the node ended the connection: {error}"
            self.fail(request, NotConnected(request.turn.address, ended))
        return []

    def _mark_failed(self, request: Request) -> None:
        assert request.turn is not None
        request.turn.failed()
        request.tried.append(request.turn.address)


class Topics:
    """The names that were found valid, so that the check is paid once and not for each message."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def check(self, topic: str, command: str) -> None:
        """Raise BadTopic as ``command`` would."""
        if topic not in self._known:
            checked_topic(topic, command)
            # A program may make up topics without end; to check a name twice costs little.
            if len(self._known) >= 1000:
                self._known.clear()
            self._known.add(topic)


def checked_bound(name: str, bound: int) -> int:
    """A bound on what is under way. Raises ConfigError for one that lets nothing through, where
    the first publish would wait for ever.
    """
    if bound < 1:
        raise ConfigError(f"{name} must be 1 at least, not {bound}")
    return bound


def checked_body(body: bytes, command: str) -> bytes:
    """The body as bytes. Raises BadMessage for an empty one, which no node takes; TypeError."""
    if type(body) is not bytes:
        try:
            body = bytes(memoryview(body))
        except TypeError:
            raise TypeError(f"a message body is bytes, not {type(body).__name__}") from None
    if not body:
        raise BadMessage(f"E_BAD_MESSAGE {command} invalid message body size 0")
    return body


def parts_of(bodies: Sequence[bytes], limit: int) -> list[list[bytes]]:
    """The bodies in lists that each fit an MPUB of ``limit`` bytes; a larger one stands alone."""
    parts: list[list[bytes]] = []
    # As if it were full, so that the first body opens a list.
    size = limit
    for body in bodies:
        size += _SIZE_BYTES + len(body)
        if size > limit:
            parts.append([])
            # The count of the MPUB, and the size of its first body.
            size = 2 * _SIZE_BYTES + len(body)
        parts[-1].append(body)
    return parts

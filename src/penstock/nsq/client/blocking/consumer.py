"""A consumer on plain sockets: a channel of a topic, from all nodes that have it."""

from __future__ import annotations

import contextlib
import logging
import selectors
from collections import deque
from collections.abc import Iterable, Iterator
from typing import cast

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.delivery import Delivery
from penstock.nsq.client.errors import ClientError, LookupFailed, NotConnected, server_error
from penstock.nsq.client.lookup import lookup
from penstock.nsq.client.message import Message
from penstock.nsq.client.names import checked_addresses, checked_channel, checked_topic
from penstock.nsq.client.ready import shares
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, MessageBlock, Response

_log = logging.getLogger("penstock.nsq.client")

_LEAVE_S = 2.0
"""How long close() waits for a node to say that it will send no more."""


class Consumer:
    """Consumes a channel of a topic from given nodes, or from those that nsqlookupd names.

    ``for message in consumer`` waits for messages for ever; ``get`` and ``get_delivery`` wait for
    a time. At most ``max_in_flight`` messages are unanswered at once, over all connections. Nodes
    that cannot be reached are tried again every ``reconnect_delay`` seconds; nsqlookupds are asked
    every ``lookupd_poll_interval`` seconds. A node that refuses the subscription raises its
    ServerError.
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqd_tcp_addresses: Iterable[str] = (),
        lookupd_http_addresses: Iterable[str] = (),
        max_in_flight: int = 1,
        config: Config | None = None,
        reconnect_delay: float = 1.0,
        lookupd_poll_interval: float = 60.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.topic = checked_topic(topic, "SUB")
        self.channel = checked_channel(channel)
        self.max_in_flight = max_in_flight
        self._config = config or Config()
        self._direct = checked_addresses(nsqd_tcp_addresses)
        self._lookupds = list(lookupd_http_addresses)
        self._reconnect_ns = int(reconnect_delay * SECOND)
        self._poll_ns = int(lookupd_poll_interval * SECOND)
        self._clock = clock
        self._due: dict[str, int] = dict.fromkeys(self._direct, 0)  # when to try an address
        self._next_poll = 0
        self._turn = 0
        self._next_turn = 0
        self._connections: dict[str, Connection] = {}
        self._deliveries: deque[Delivery] = deque()
        self._messages: deque[Message] = deque()
        self._selector = selectors.DefaultSelector()
        self._closed = False

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connections(self) -> list[str]:
        """The addresses connected at present."""
        return sorted(self._connections)

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        return sum(connection.in_flight for connection in self._connections.values())

    def __iter__(self) -> Iterator[Message]:
        while not self._closed:
            message = self.get(1.0)
            if message is not None:
                yield message

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message, or None after ``timeout`` seconds (None waits for ever)."""
        while not self._messages:
            delivery = self.get_delivery(timeout)
            if delivery is None:
                return None
            self._messages.extend(delivery.messages())
        return self._messages.popleft()

    def get_delivery(self, timeout: float | None = None) -> Delivery | None:
        """The next messages that arrived together, or None after ``timeout`` seconds."""
        end = None if timeout is None else self._clock.monotonic_ns() + int(timeout * SECOND)
        while not self._deliveries and not self._closed:
            now = self._clock.monotonic_ns()
            self._reap()
            self._maintain(now)
            wait = self._wait_ns(now)
            if end is not None:
                wait = min(wait, end - now)
            self._receive(max(0, wait) / SECOND)
            if end is not None and self._clock.monotonic_ns() >= end:
                break
        return self._deliveries.popleft() if self._deliveries else None

    def _wait_ns(self, now: int) -> int:
        due = [when for address, when in self._due.items() if address not in self._connections]
        if self._lookupds:
            due.append(self._next_poll)
        if 0 < self.max_in_flight < len(self._connections):
            due.append(self._next_turn)
        return min(due, default=now + 60 * SECOND) - now

    def _maintain(self, now: int) -> None:
        if self._lookupds and now >= self._next_poll:
            self._poll(now)
        for address, when in list(self._due.items()):
            if address not in self._connections and now >= when:
                self._connect(address, now)
        if now >= self._next_turn and len(self._connections) > self.max_in_flight:
            self._next_turn = now + 5 * SECOND
            self._turn += 1
            self._share()

    def _poll(self, now: int) -> None:
        self._next_poll = now + self._poll_ns
        try:
            found = lookup(self._lookupds, self.topic)
        except LookupFailed as error:
            _log.warning("%s", error)
            self._next_poll = now + min(self._poll_ns, self._reconnect_ns)
            return
        for node in found:
            self._due.setdefault(node.tcp_address, 0)

    def _connect(self, address: str, now: int) -> None:
        self._due[address] = now + self._reconnect_ns
        self._reap()  # the new socket may get the number of one that was closed
        try:
            connection = Connection(address, self._config, self.topic, self.channel)
        except NotConnected as error:
            _log.warning("%s", error)
            self._forget(address)
            return
        self._connections[address] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        self._share()

    def _share(self) -> None:
        """Give every connection its RDY, those that get less first."""
        connections = list(self._connections.values())
        counts = shares(self.max_in_flight, len(connections), self._turn)
        pairs = sorted(zip(connections, counts, strict=True), key=lambda pair: pair[1])
        for connection, count in pairs:
            with contextlib.suppress(NotConnected):  # noticed when it is read
                connection.set_ready(count)

    def _receive(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            connection = cast(Connection, key.fileobj)
            try:
                frames = connection.receive_ready()
            except NotConnected as error:
                self._drop(connection, str(error))
                continue
            for frame in frames:
                self._take(connection, frame)

    def _reap(self) -> None:
        """Let go of connections that were lost while something was sent."""
        for connection in [one for one in self._connections.values() if not one.is_open]:
            self._drop(connection, "closed")

    def _take(self, connection: Connection, frame: Frame) -> None:
        if isinstance(frame, MessageBlock):
            connection.in_flight += frame.count
            self._deliveries.append(Delivery(connection, frame))
        elif isinstance(frame, Error):
            _log.warning("%s: %s", connection.address, frame.text)

    def _drop(self, connection: Connection, reason: str) -> None:
        _log.warning("%s lost: %s", connection.address, reason)
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection)
        connection.close()
        self._connections.pop(connection.address, None)
        # What it brought and nobody has seen yet comes again over another connection.
        self._deliveries = deque(one for one in self._deliveries if one.is_alive)
        self._messages = deque(one for one in self._messages if one.is_alive)
        self._due[connection.address] = self._clock.monotonic_ns() + self._reconnect_ns
        self._forget(connection.address)
        self._share()

    def _forget(self, address: str) -> None:
        """A node nsqlookupd named may be gone for good: ask again instead of trying for ever."""
        if address not in self._direct:
            self._due.pop(address, None)
            soon = self._clock.monotonic_ns() + self._reconnect_ns
            self._next_poll = min(self._next_poll, soon)

    def close(self) -> None:
        """Stop receiving, give back what was not handed out, and close.

        Messages handed out and not answered come again after their time-out.
        """
        if self._closed:
            return
        self._closed = True
        for connection in self._connections.values():
            with contextlib.suppress(ClientError):
                self._leave(connection)
        for message in self._messages:
            message.requeue()
        for delivery in self._deliveries:
            delivery.requeue()
        self._messages.clear()
        self._deliveries.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._selector.close()

    def _leave(self, connection: Connection) -> None:
        connection.send(encode.CLS)
        while (frame := connection.receive(_LEAVE_S)) != Response(b"CLOSE_WAIT"):
            self._take(connection, frame)
            if isinstance(frame, Error) and frame.is_fatal:
                raise server_error(frame.text)

"""A consumer on plain sockets: a channel of a topic, from all nodes that have it."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar, cast

from penstock.cluster.upstream_errors import UnreachableError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.blocking import forks
from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.consume.delivery import Delivery
from penstock.nsq.client.consume.subscription import Subscription
from penstock.nsq.client.errors import ClientError, LookupFailed, NotConnected
from penstock.nsq.client.lookup import fetch, lookup_failed
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import encode

Handler = Callable[[Message], object]
Taken = TypeVar("Taken")

_TURN_NS: Final = 5 * MILLISECOND
"""The time that messages are handed out for before the nodes are heard again."""
_QUICK_NS: Final = MILLISECOND
"""The longest time that a quick message takes."""
_QUICK_RUN: Final = 100
"""The number of quick messages in a row behind which FINs wait for each other. Until then each is
sent before the next message, over which its time may end.
"""
_LEAVE_S: Final = 2.0
"""The time in seconds that nodes may take to say that they send no more."""


class Consumer(Subscription[Connection]):
    """A consumer of a topic's channel on given nodes, and on those that nsqlookupd names.

        with Consumer("t", "c", nsqd_tcp_addresses=["127.0.0.1:4150"]) as consumer:
            for message in consumer:
                message.finish()

    ``for`` over the consumer, ``deliveries()`` and ``run(handler)`` are three ways to get at
    messages; ``get`` and ``get_delivery`` wait for a time only. Arguments and errors are those of
    the asyncio consumer.

    **Nothing runs in the background.** Nodes are heard, heartbeats answered, lost connections
    replaced and backoffs ended while one of these methods is called. If none is called for two
    ``heartbeat_interval`` (by default a minute), because a message takes that long, the connections
    are lost, and the messages on them come again: call ``get_delivery(0)``, or ``work()``, now
    and then, or ask for a longer interval. Answers to messages are sent at once, but those of a
    loop over very many quick ones a little later. Only connecting and asking nsqlookupd happen in
    short-lived threads, so that nobody waits for a node that hangs. A process that is forked
    leaves the consumer to its parent, and gets a ClientError.
    """

    _turn_ends = 0
    _gathers = False
    _is_parents = False
    _selector: selectors.BaseSelector | None = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- messages --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        clock, take = self._clock.monotonic_ns, self._inbox.message
        handed_out, quick = clock(), 0
        try:
            while True:
                now = clock()
                quick = quick + 1 if now - handed_out <= _QUICK_NS else 0
                self._gathers = quick > _QUICK_RUN
                if not self._gathers:
                    self._flush()
                handed_out = now
                message = take() if now < self._turn_ends else None
                if message is None and (message := self._next(take, None)) is None:
                    return
                yield message
        finally:
            self._gathers = False
            self._flush()

    def deliveries(self) -> Iterator[Delivery]:
        """Messages as they arrive together, until the consumer is closed: the quick way."""
        while (delivery := self._next(self._inbox.delivery, None)) is not None:
            yield delivery

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message, or None after ``timeout`` seconds (None waits for ever)."""
        return self._next(self._inbox.message, timeout)

    def get_delivery(self, timeout: float | None = None) -> Delivery | None:
        """The next messages that arrived together, or None after ``timeout`` seconds."""
        return self._next(self._inbox.delivery, timeout)

    def run(self, handler: Handler) -> None:
        """Have ``handler`` called with each message, until the consumer is closed in there.

        When it returns the message is finished, unless it was answered in there; when it raises,
        the message is requeued and the consumer slows down.
        """
        for message in self:
            self._handle(handler, message)

    def work(self) -> None:
        """Do what is due without waiting: for those who are busy with a message for long."""
        if not self._closing:
            self._work(0)

    def _handle(self, handler: Handler, message: Message) -> None:
        try:
            handler(message)
        except Exception as error:
            self._handler_failed(message, error)
        else:
            message.finish()

    def _next(self, take: Callable[[], Taken | None], timeout: float | None) -> Taken | None:
        now = self._clock.monotonic_ns()
        end = None if timeout is None else now + int(timeout * SECOND)
        if now >= self._turn_ends and not self._closing:
            self._work(0)
        while True:
            while self._inbox.spent:
                self._handle(self._given_up, self._inbox.spent.popleft())
            found = take()
            if found is not None or self._closing:
                return found
            if self._fatal is not None:
                raise self._fatal
            now = self._clock.monotonic_ns()
            if end is not None and now >= end:
                return None
            self._work(end)

    # --- one step --------------------------------------------------------------------------------

    def _work(self, end: int | None) -> None:
        """Do what is due, then take what comes, until then at the latest."""
        if self._is_parents:
            raise ClientError(
                "this consumer was made before its process was forked; make one in each process"
            )
        selector = self._selector or self._begin()
        self._flush()
        self._reap()
        self._tick()
        now = self._clock.monotonic_ns()
        due = [one for one in (self._deadline, self._silent_at, end) if one is not None]
        wait = max(0, min(due) - now) / SECOND if due else None
        for key, _ in selector.select(wait):
            if key.fileobj is self._bell:
                self._bell.recv(4096)
            else:
                self._hear(cast(Connection, key.fileobj))
        while not self._done.empty():
            self._done.get()()
        now = self._clock.monotonic_ns()
        self._leave_the_silent(now)
        self._turn_ends = now + _TURN_NS

    def _begin(self) -> selectors.BaseSelector:
        self._selector = selectors.DefaultSelector()
        self._gathered: list[Callable[[], None]] = []
        self._heard: dict[Connection, int] = {}
        self._silence_ns = 2 * max(0, int(self._config.heartbeat_interval * SECOND))
        self._done: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # A thread that is done wakes ``select`` by it.
        self._bell, self._rope = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ)
        forks.watch(self)
        return self._selector

    def leave_to_parent(self) -> None:
        """Take part in nothing more, in a forked process: its parent goes on."""
        self._is_parents, self._turn_ends = True, 0
        if self._selector is not None:
            self._selector.close()  # taking a socket out of it would do so for the parent, too
            self._selector = None

    @property
    def _silent_at(self) -> int | None:
        """The time at which the first connection will have been silent for too long."""
        heard = min(self._heard.values(), default=None)
        return heard + self._silence_ns if heard is not None and self._silence_ns else None

    def _leave_the_silent(self, now: int) -> None:
        """A server sends heartbeats; one that is silent for two of them is gone."""
        silence = self._silence_ns
        for connection in [
            one for one, at in self._heard.items() if silence and now >= at + silence
        ]:
            reason = f"silent for {silence / SECOND:g} s"
            self._drop(connection, NotConnected(connection.address, reason))

    def _hear(self, connection: Connection) -> None:
        self._heard[connection] = self._clock.monotonic_ns()
        try:
            frames = connection.receive_ready()
        except ClientError as error:
            self._drop(connection, error)
            return
        for frame in frames:
            self._take(connection, frame)

    def _reap(self) -> None:
        """Let go of connections that were lost while something was sent."""
        for connection in [one for one in self._replies if not one.is_open]:
            self._drop(connection, NotConnected(connection.address, "the connection is closed"))

    def _drop(self, connection: Connection, error: ClientError) -> None:
        assert self._selector is not None
        # One that is closed has no descriptor any more to be found by.
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()
        self._heard.pop(connection, None)
        if not isinstance(error, NotConnected):
            error = NotConnected(connection.address, str(error))
        self._lost(connection, error)

    # --- what takes long -------------------------------------------------------------------------

    def _aside(self, work: Callable[[], Callable[[], None]]) -> None:
        """Do ``work`` in a thread, and what it gives back in this one."""

        def do() -> None:
            self._done.put(work())
            with contextlib.suppress(OSError):  # closed meanwhile: nobody waits any more
                self._rope.send(b"!")

        # A daemon: the program may end while a node that hangs is dialled.
        Thread(target=do, daemon=True, name=f"nsq consumer {self.topic}/{self.channel}").start()

    def _connect_to(self, address: str) -> None:
        def dial() -> Callable[[], None]:
            try:
                connection = Connection(address, self._config, self.topic, self.channel)
            except ClientError as error:
                found = error
            except (OSError, ValueError) as error:  # nsqlookupd may name anything
                found = NotConnected(address, str(error))
            else:
                if self._closing:
                    connection.close()
                return lambda: self._connected(connection)
            return lambda: self._failed(address, found)

        self._aside(dial)

    def _connected(self, connection: Connection) -> None:
        assert self._selector is not None
        if self._closing:
            connection.close()
            return
        self._reap()  # the new socket may have the number of one that was closed
        self._selector.register(connection, selectors.EVENT_READ)
        self._heard[connection] = self._clock.monotonic_ns()
        self._joined(connection)

    def _ask(self, url: str) -> None:
        headers, seconds = self._discovery.headers, self._discovery.timeout_s

        def ask() -> Callable[[], None]:
            try:
                status, body = fetch(url, headers, seconds)
            except UnreachableError as error:
                found = lookup_failed(url, error.__cause__ or error, error.short)
                return lambda: self._not_answered(url, found)
            except ValueError as error:
                found = LookupFailed(str(error))
                return lambda: self._not_answered(url, found)
            return lambda: self._answered(url, status, body)

        self._aside(ask)

    def _soon(self, flush: Callable[[], None]) -> None:
        if self._gathers:
            self._gathered.append(flush)
        else:
            flush()

    def _flush(self) -> None:
        while self._selector is not None and self._gathered:
            self._gathered.pop()()

    # --- the end ---------------------------------------------------------------------------------

    def close(self, grace: float = 30.0) -> None:
        """Stop receiving, give back what was not handed out, and close.

        As nothing runs in the background, messages handed out can only be answered before; those
        that were not come again after their time-out. Nodes get ``grace`` seconds, but no more than
        two, to say that they send no more.
        """
        if self._closing:
            return
        self._closing = True
        self._flow.close()
        self._say_stopping()
        if self._selector is None:
            return
        self._flush()
        self._gathers = False
        self._inbox.give_back()
        for connection in self._replies:
            with contextlib.suppress(NotConnected):
                connection.send(encode.CLS)
        end = self._clock.monotonic_ns() + int(min(grace, _LEAVE_S) * SECOND)
        while any(not one.state.left for one in self._replies):
            if self._clock.monotonic_ns() >= end:
                break
            self._work(end)
        for connection, replies in self._replies.items():
            replies.close()
            connection.close()
        self._replies.clear()
        self._heard.clear()
        while not self._done.empty():
            self._done.get()()
        self._selector.close()
        for bell in (self._bell, self._rope):
            bell.close()

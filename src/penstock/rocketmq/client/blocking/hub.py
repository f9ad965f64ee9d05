"""The network and the time of a blocking client, on plain sockets.

Nothing runs in the background: answers are read, heartbeats sent and lost connections replaced
while one of the client's methods is called. A server that cannot be reached holds up nobody else.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.reasons import reason
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.blocking.pending_connection import PendingConnection
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import (
    PAGE,
    ClientError,
    NoNameServer,
    NotConnected,
    Stopped,
)
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.network.wire import PAUSE_NS, Wire

T = TypeVar("T")
_READ_BYTES: Final = 256 * 1024
_UNSENT_MAX: Final = 1 << 20
"""Bytes of one-way requests that may wait for a server."""
_BREATH_NS: Final = 100 * MILLISECOND
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Link:
    """One connection: what its wire has to say goes out, what comes goes into it."""

    def __init__(self, wire: Wire, connection: socket.socket) -> None:
        self.wire = wire
        self.socket = connection
        self._left = memoryview(b"")

    @property
    def is_behind(self) -> bool:
        """True while something that was said is not sent."""
        return bool(self._left) or self.wire.nbytes_said > 0

    def flush(self) -> bool:
        """Send what there is to send; whether something is left. Raises OSError."""
        while True:
            if not self._left:
                self._left = memoryview(self.wire.take_output())
                if not self._left:
                    return False
            try:
                self._left = self._left[self.socket.send(self._left) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return True

    def receive(self) -> None:
        """Take what has come. Raises OSError, ClientError."""
        while True:
            try:
                data = self.socket.recv(_READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self.wire.receive_data(data)
            # TLS may hold decrypted bytes that select knows nothing of, so it is read until it has
            # no more.
            if len(data) < _READ_BYTES and not isinstance(self.socket, ssl.SSLSocket):
                return


class BlockingHub(Hub):
    """The core, run while somebody waits for it. For one thread at a time, but for ``ring``."""

    def __init__(self, config: Config, clock: Clock, chance: Chance | None) -> None:
        super().__init__(config, clock, chance)
        self._process = os.getpid()
        self._links: dict[Wire, Link] = {}
        self._undialled: list[Wire] = []
        self._pending: dict[Wire, PendingConnection] = {}
        self._left_ns = 0
        self._was_away = False
        self._unsent: dict[Wire, None] = {}
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        self._rope.setblocking(False)
        # A socket pair, not an event: a thread that waits in select wakes up for sockets only.
        self._selector.register(self._bell, _READ)

    def run(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The result of a coroutine of the core."""
        self.catch_up()
        return self.wait_for(Job(coroutine))

    def catch_up(self) -> None:
        """Take note of what came while the program did something else, before more is sent: a
        server lets go of a client that is silent for two minutes.
        """
        if self.is_closed or self.is_forked:
            return
        self._look_at_pause()
        if self._was_away:
            self._take_in(0)

    def _look_at_pause(self) -> None:
        self._was_away = self.clock.monotonic_ns() - self._left_ns >= PAUSE_NS

    def wait_for(self, promise: Promise[T]) -> T:
        """The value of a promise, waited for."""
        try:
            while not promise.is_done:
                self.work(None)
        except BaseException:
            if isinstance(promise, Job):
                promise.cancel(Stopped())
            raise
        return promise.result()

    def ring(self) -> None:
        """End a ``work`` that waits; any thread may call this."""
        with contextlib.suppress(OSError):  # rung already, or closed
            self._rope.send(b"!")

    @property
    def is_forked(self) -> bool:
        """True in a child of the process that has made it: both have the same connections, and one
        would take the answers to the other's requests for its own.
        """
        return os.getpid() != self._process

    def work(self, seconds: float | None) -> None:
        """Do what is due, then take what comes within ``seconds``; None waits for something.

        Raises ClientError in a forked process, and Stopped once the client is closed.
        """
        if self.is_closed:
            raise Stopped
        if self.is_forked:
            raise ClientError(
                "this client was made before its process was forked", "make one in each process"
            )
        self._look_at_pause()
        # What waits may be done by any of these, and then there is nothing left to wait for here.
        is_moved = self._connect_all()
        self._flush_all()
        is_moved |= self._tick_if_due()
        is_moved |= self._connect_all()
        self._flush_all()
        self._take_in(0 if is_moved else self._patience(seconds))
        self._flush_all()
        self._left_ns = self.clock.monotonic_ns()

    def breathe(self) -> None:
        """Do what is due if that was last done a while ago: for programs that are kept busy with
        what they were given at once. Raises ClientError as ``work`` does.
        """
        if self.clock.monotonic_ns() - self._left_ns >= _BREATH_NS:
            self.work(0)

    def _take_in(self, seconds: float | None) -> None:
        for key, events in self._selector.select(seconds):
            if key.fileobj is self._bell:
                self._bell.recv(4096)
            elif key.data.wire in self._pending:
                self._go_on(key.data)
            elif key.data.wire in self._links:  # not given up meanwhile
                self._serve_link(key.data, events)

    def drain(self, address: str) -> None:
        """Send, and wait while this server takes less than is sent, or is being connected to."""
        self.work(0)
        while (wire := self._wires.get(address)) and (
            wire in self._pending or wire.nbytes_said >= _UNSENT_MAX
        ):
            self.work(None)

    def _tick_if_due(self) -> bool:
        """Do what is due; False if nothing was."""
        deadline = self.deadline
        if deadline is None or deadline > self.clock.monotonic_ns():
            return False
        self._take_in(0)  # an answer that is here is in time, however late somebody reads it
        self._flush_all()  # and so is what waited for a connection
        self.tick()
        return True

    def _patience(self, seconds: float | None) -> float | None:
        deadline = self.deadline
        if self._undialled:
            return 0
        if deadline is None:
            return seconds
        left = max(0, deadline - self.clock.monotonic_ns()) / SECOND
        return left if seconds is None else min(left, seconds)

    def _serve_link(self, link: Link, events: int) -> None:
        try:
            if events & _READ:
                link.receive()
            if events & _WRITE:
                self._flush_link(link)
        except (OSError, ClientError) as error:
            self._drop(link, error)
        except BaseException:
            self._interrupted(link.wire)
            raise

    def _interrupted(self, wire: Wire) -> None:
        """Give up a connection in whose midst the handler of a signal has raised: half a frame may
        have gone or come, and what follows would be taken for the rest of it. One on its way would
        be waited for, and nobody would go on with it.
        """
        link = self._links.pop(wire, None)
        if link is not None:  # else it would send what is left first
            self._selector.unregister(link.socket)
            link.socket.close()
        self.lose(wire, NotConnected(wire.address, "interrupted by a signal"))

    def _drop(self, link: Link, error: OSError | ClientError) -> None:
        if isinstance(error, OSError):
            error = NotConnected(link.wire.address, reason(error))
        self.lose(link.wire, error)

    def lose(self, wire: Wire, error: ClientError) -> None:
        self.disconnect(wire)
        super().lose(wire, error)

    # --- connections -----------------------------------------------------------------------------

    def connect(self, wire: Wire) -> None:
        self._undialled.append(wire)  # it has nothing to fail yet

    def _connect_all(self) -> bool:
        """Begin the connections that are asked for; False if none is."""
        is_moved = bool(self._undialled)
        while self._undialled:
            wire = self._undialled.pop()
            try:
                pending = PendingConnection(wire, self.config)
            except (OSError, ValueError, ClientError) as error:
                self._not_connected(wire, error)
                continue
            except BaseException:
                self._interrupted(wire)
                raise
            self._pending[wire] = pending
            self._selector.register(pending.socket, _WRITE, pending)
            self._begin_time(pending)
        return is_moved

    def _begin_time(self, pending: PendingConnection) -> None:
        """Count the time of a connection on its way, and of what waits for it, from now on."""
        pending.wire.begin_now()
        if pending.timer is not None:
            pending.timer.cancel()
        give_up = partial(self._give_up, pending.wire)
        pending.timer = self.later(self.config.connect_timeout, give_up)

    def _go_on(self, pending: PendingConnection) -> None:
        """Take the next step to a connection, as its socket is ready."""
        wire = pending.wire
        self._selector.unregister(pending.socket)
        try:
            events = pending.go_on()
        except (OSError, ValueError) as error:
            self._end_pending(wire)
            self._not_connected(wire, error)
            return
        except BaseException:
            self._interrupted(wire)
            raise
        connection = pending.socket
        if events:
            self._selector.register(connection, events, pending)
            if self._was_away:  # the program did something else: the server is not to blame
                self._begin_time(pending)
            return
        self._end_pending(wire, is_connected=True)
        self._links[wire] = link = Link(wire, connection)
        self._selector.register(connection, _READ, link)
        version = connection.version() if isinstance(connection, ssl.SSLSocket) else ""
        self.opened(wire, version or "")

    def _end_pending(self, wire: Wire, *, is_connected: bool = False) -> None:
        pending = self._pending.pop(wire, None)
        if pending is None:
            return
        if pending.timer is not None:
            pending.timer.cancel()
        if not is_connected:
            if not self.is_forked:  # the parent's goes on
                with contextlib.suppress(KeyError, ValueError):  # in a step, or closed by one
                    self._selector.unregister(pending.socket)
            pending.socket.close()

    def _give_up(self, wire: Wire) -> None:
        told = f"no connection within {self.config.connect_timeout:g} s"
        self.lose(wire, NotConnected(wire.address, told))

    def _not_connected(self, wire: Wire, error: Exception) -> None:
        if not isinstance(error, ClientError):
            told = f"connect to {wire.address} failed: {reason(error)}"
            error = NotConnected(wire.address, told)
        self.lose(wire, error)

    def flush(self, wire: Wire) -> None:
        self._unsent[wire] = None

    def _flush_all(self) -> None:
        for wire in list(self._unsent):
            if (link := self._links.get(wire)) is not None:
                wire.begin_now()
                try:
                    self._flush_link(link)
                except OSError as error:
                    self._drop(link, error)
                except BaseException:
                    self._interrupted(wire)
                    raise
            self._unsent.pop(wire, None)  # not before: another one may be interrupted

    def _flush_link(self, link: Link) -> None:
        events = _READ | _WRITE if link.flush() else _READ
        if self._selector.get_key(link.socket).events != events:
            self._selector.modify(link.socket, events, link)

    def disconnect(self, wire: Wire) -> None:
        self._end_pending(wire)
        link = self._links.pop(wire, None)
        if link is not None:
            if not self.is_forked:  # the parent's connection, and its epoll, go on
                with contextlib.suppress(OSError):
                    link.flush()
                self._selector.unregister(link.socket)
            link.socket.close()

    def rescheduled(self) -> None:
        """``work`` looks at the deadline each time."""

    # --- the rest --------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *arguments: Any) -> Promise[Any]:
        promise = Promise[Any]()
        try:
            found = function(*arguments)
            if isawaitable(found):
                raise TypeError("a blocking client calls functions, not coroutines")
            promise.keep(found)
        except Exception as error:
            promise.fail(error)
        return promise

    def fetch(self, url: str) -> Promise[bytes]:
        import http.client
        import urllib.error
        import urllib.request

        promise = Promise[bytes]()
        try:
            with urllib.request.urlopen(url, timeout=self.config.request_timeout) as answer:
                promise.keep(answer.read(1 << 20))
        except urllib.error.HTTPError as error:
            error.close()
            promise.fail(NoNameServer(f"{url}: {error}", PAGE))
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            promise.fail(NoNameServer(f"{url}: {error}", PAGE))
        return promise

    def close(self) -> None:
        if self.is_closed:
            return
        try:
            if not self.is_forked:
                self._send_rest()
        finally:  # Ctrl-C ends the wait, not the close
            super().close()
            self._selector.close()
            for end in (self._bell, self._rope):
                end.close()

    def _send_rest(self) -> None:
        """Send what was said, within the time of a send: nobody waits for one-way requests else."""
        clock = self.clock.monotonic_ns
        end = clock() + int(self.config.send_msg_timeout * SECOND)
        while any(link.is_behind for link in self._links.values()):
            left = end - clock()
            if left <= 0:
                return
            self.work(left / SECOND)

"""Health and metrics while the event loop is held up by a disk that does not answer.

The loop cannot leave a write to a disk that hangs. A thread that looks now and then whether it is
held up takes new connections to the ports in its place then. It answers those that ask how the
program is: /live, /ping, /ready and /metrics. Everything else waits, as it would without: the
thread only looks at what has come, and hands the connection to the loop once that runs again.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.net.http.reasons import REASONS
from penstock.net.http.server.message import Response
from penstock.net.tcp import Listener
from penstock.net.vitals.vitals import Vitals

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.25
HELD_UP_NS: Final = SECOND
"""The time for which a write holds up the loop before the thread answers."""
KEPT_MAX: Final = 256
"""The most connections that wait for the loop; further ones are not taken."""
_SEND_S: Final = 1.0
_HEAD_MAX: Final = 64 * 1024


class StandIn:
    """The thread of a program; ``held_up_since_ns`` is the time since which its loop has been held
    up (monotonic), 0 while it runs.
    """

    def __init__(self, vitals: Vitals, held_up_since_ns: Callable[[], int]) -> None:
        self.listeners: list[Listener] = []
        """The ports with plain HTTP that the loop listens on."""
        self._vitals = vitals
        self._held_up_since_ns = held_up_since_ns
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread, from within the loop."""
        work = partial(self._run, asyncio.get_running_loop())
        threading.Thread(target=work, name="penstock-stand-in", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopped.wait(LOOK_S):
            since_ns = self._held_up_since_ns()
            if since_ns and SYSTEM_CLOCK.monotonic_ns() - since_ns >= HELD_UP_NS:
                with _Watch(self.listeners, loop) as watch:
                    while self._held_up_since_ns() == since_ns and not self._stopped.is_set():
                        for client in watch.clients():
                            self._answer(client, watch)

    def _answer(self, client: socket.socket, watch: _Watch) -> None:
        """Answer a client that asks for a page, and leave others to the loop."""
        with suppress(OSError):  # of a client that has gone, or does not read
            head = client.recv(_HEAD_MAX, socket.MSG_PEEK)
            response = self._page(head)
            if response is None and head:
                return
            if response is not None:
                client.recv(_HEAD_MAX)
                client.settimeout(_SEND_S)
                client.sendall(_encoded(response))
        watch.let_go(client)

    def _page(self, head: bytes) -> Response | None:
        # What comes in pieces is left to the loop, too.
        if not head.startswith(b"GET /") or b"\r\n\r\n" not in head:
            return None
        path = head.split(b" ", 2)[1].partition(b"?")[0]
        with suppress(Exception):  # the loop has just gone on and changes what is read: it answers
            return self._vitals.now(path.decode("latin-1"))
        return None


class _Watch:
    """The ports and their new connections, between two turns of the loop."""

    def __init__(self, listeners: list[Listener], loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._selector = selectors.DefaultSelector()
        self._ports: dict[socket.socket, Listener] = {}
        self._kept: dict[socket.socket, Listener] = {}
        for each in listeners:
            with suppress(OSError):  # a port that is closed meanwhile
                port = each.copy()
                self._ports[port] = each
                self._selector.register(port, selectors.EVENT_READ)

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        """Hand the loop whoever was not let go."""
        self._selector.close()
        for port in self._ports:
            port.close()
        for client, listener in self._kept.items():
            try:
                self._loop.call_soon_threadsafe(listener.adopt, client)
            except RuntimeError:  # the loop is closed
                client.close()

    def clients(self) -> list[socket.socket]:
        """The new connections that have sent something, each once."""
        ready = [key.fileobj for key, _ in self._selector.select(LOOK_S)]
        clients = []
        for each in ready:
            assert isinstance(each, socket.socket)
            if each in self._ports:
                self._accept(each)
            else:
                self._selector.unregister(each)
                clients.append(each)
        return clients

    def _accept(self, port: socket.socket) -> None:
        client = None
        if len(self._kept) < KEPT_MAX:
            try:
                client, _ = port.accept()
            except BlockingIOError:  # the loop, or another process, has taken it
                return
            except OSError as error:
                logger.warning("cannot take connections for the event loop: %s", error)
        if client is None:
            self._selector.unregister(port)
            return
        client.setblocking(False)
        self._kept[client] = self._ports[port]
        self._selector.register(client, selectors.EVENT_READ)

    def let_go(self, client: socket.socket) -> None:
        """End a connection that was answered."""
        del self._kept[client]
        client.close()


def _encoded(response: Response) -> bytes:
    body = response.body if isinstance(response.body, list) else [response.body]
    head = (
        f"HTTP/1.1 {response.status} {REASONS[response.status]}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {response.body_size()}\r\nConnection: close\r\n\r\n"
    )
    return b"".join([head.encode(), *body])

"""Health and metrics while the event loop is held up by a disk that does not answer.

The loop cannot leave a write to a disk that hangs. A thread that looks now and then whether it is
held up takes new connections to the ports in its place then, and answers what tells people how the
program is: /live, /ping, /ready and /metrics. Everything else waits, as it would without.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.core.units import SECOND
from penstock.net.tcp import Listener
from penstock.net.vitals.vitals import HEALTHY, Vitals

LOOK_S: Final = 0.25
HELD_UP_NS: Final = SECOND
"""The time for which a write holds up the loop before the thread answers."""
_ASK_S: Final = 1.0
_HEAD_MAX: Final = 64 * 1024
_REASONS: Final = {200: "OK", 500: "Internal Server Error", 503: "Service Unavailable"}


class StandIn:
    """The thread of a program; ``held_up_ns`` is for how long its loop has been held up."""

    def __init__(self, vitals: Vitals, held_up_ns: Callable[[], int]) -> None:
        self.listeners: list[Listener] = []
        """The ports with plain HTTP that the loop listens on."""
        self._vitals = vitals
        self._held_up_ns = held_up_ns
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="penstock-stand-in", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            if self._held_up_ns() >= HELD_UP_NS:
                self._serve()

    def _serve(self) -> None:
        """Answer until the loop goes on."""
        with suppress(OSError):  # a port that is closed meanwhile
            sockets = [each.copy() for each in self.listeners]
            try:
                while self._held_up_ns() and not self._stopped.is_set():
                    for each in sockets:
                        self._answer_one(each)
            finally:
                for each in sockets:
                    each.close()

    def _answer_one(self, listening: socket.socket) -> None:
        select.select((listening,), (), (), LOOK_S)
        # Once the loop goes on, it takes the next connections itself.
        if not self._held_up_ns():
            return
        listening.setblocking(False)
        with suppress(OSError):
            client, _ = listening.accept()
            with client:
                client.settimeout(_ASK_S)
                head = b""
                while b"\r\n\r\n" not in head and len(head) < _HEAD_MAX:
                    data = client.recv(_HEAD_MAX)
                    if not data:
                        return
                    head += data
                client.sendall(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        target = head.split(b" ", 2)[1].partition(b"?")[0] if head.count(b" ") > 1 else b""
        health = self._vitals.health()
        status, body = 503, health
        if target == b"/live":
            status, body = 200, HEALTHY
        elif target == b"/ping":
            status = 200 if health == HEALTHY else 500
        elif target == b"/metrics" and self._vitals.shows_metrics:
            status, body = 200, self._vitals.metrics_now()
        data = body.encode()
        return (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        ).encode() + data

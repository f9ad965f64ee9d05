"""Nodes and their copies as programs: asked over HTTP, and waited for."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.testing.daemons import Daemon

WAIT_S_MAX = 120


def ask(daemon: Daemon, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Status and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=WAIT_S_MAX)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    return response.status, json.loads(data) if data[:1] == b"{" else data


def until(daemon: Daemon, **wanted: Any) -> dict[str, Any]:
    """Wait until a node's /replication says all this."""
    answer: dict[str, Any] = {}
    for _ in range(WAIT_S_MAX * 20):
        try:
            answer = ask(daemon, "GET", "/replication")[1]
        except OSError:
            answer = {}
        if answer.items() >= wanted.items():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"{answer} instead of {wanted}\n{daemon.log()[-3000:]}")


def until_copied(old: Daemon, new: Daemon, topic: str) -> None:
    """Wait until both logs of a topic have the same bounds, and the journal was copied since."""
    wanted = ask(old, "GET", f"/log/offsets?topic={topic}")[1]["queues"]
    for _ in range(WAIT_S_MAX * 20):
        status, answer = ask(new, "GET", f"/log/offsets?topic={topic}")
        if status == 200 and answer["queues"][0]["end"] == wanted[0]["end"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(new.log()[-3000:])
    time.sleep(0.6)  # the longest time between two saves of progress, and one answer
    until(new, whole=True, error=None)


def publish(daemon: Daemon, topic: str, *bodies: str) -> None:
    for each in bodies:
        assert ask(daemon, "POST", f"/pub?topic={topic}", each.encode()) == (200, b"OK")


@contextmanager
def cut_relay(address: str, nbytes: int) -> Iterator[str]:
    """Another address of a server, at which nobody answers any more after so many bytes of it."""
    host, _, port = address.rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        left = nbytes
        with listener, suppress(OSError):
            while left > 0:
                client, _ = listener.accept()
                with client, socket.create_connection((host, int(port))) as server:
                    threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
                    while left > 0 and (data := server.recv(min(left, 1 << 16))):
                        client.sendall(data)
                        left -= len(data)
                    client.shutdown(socket.SHUT_RDWR)  # or the other thread's read keeps it open

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    thread.join(WAIT_S_MAX)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

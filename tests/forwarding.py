"""What tests of nsq_to_http and nsq_to_nsq need: the tools, an HTTP endpoint, a look at an nsqd.

PENSTOCK_TOOLS names a directory with other tools of these names, Go's say.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

from penstock.testing.daemons import Daemon
from tools.harness.forking import start

PATH = os.environ.get("PENSTOCK_TOOLS") or str(Path(sys.executable).parent)
WAIT_S_MAX = 60.0
POLL_S = 0.01


def wait_until(done: Callable[[], bool], what: Callable[[], str]) -> None:
    """Until `done()`; AssertionError with `what()` after a while."""
    for _ in range(int(WAIT_S_MAX / POLL_S)):
        if done():
            return
        time.sleep(POLL_S)
    raise AssertionError(what())


# --- an nsqd -------------------------------------------------------------------------------------


def publish(nsqd: Daemon, topic: str, bodies: Sequence[bytes]) -> None:
    """Publish all of them with one request."""
    parts = b"".join(pack(">I", len(body)) + body for body in bodies)
    _post(nsqd, f"/mpub?topic={topic}&binary=true", pack(">I", len(bodies)) + parts)


def create(nsqd: Daemon, topic: str, channel: str) -> None:
    """Create a topic and a channel, so that the channel gets every message."""
    _post(nsqd, f"/topic/create?topic={topic}")
    _post(nsqd, f"/channel/create?topic={topic}&channel={channel}")


def channel(nsqd: Daemon, topic: str, name: str) -> dict[str, Any]:
    """The channel's statistics; empty while there is none."""
    with urllib.request.urlopen(
        f"http://{nsqd.http}/stats?format=json&topic={topic}&channel={name}"
    ) as answer:
        topics = json.load(answer)["topics"] or []
    found = [each for topic in topics for each in topic["channels"]]
    return found[0] if found else {}


def bodies_in(nsqd: Daemon, topic: str, name: str, count: int) -> list[bytes]:
    """So many bodies from a channel; TimeoutError when no more come."""
    host, _, port = nsqd.tcp.rpartition(":")
    found: list[bytes] = []
    with socket.create_connection((host, int(port)), timeout=WAIT_S_MAX) as connection:
        connection.sendall(f"  V2SUB {topic} {name}\nRDY 2000\n".encode())
        with connection.makefile("rb") as stream:
            while len(found) < count:
                frame = stream.read(int.from_bytes(stream.read(4), "big"))
                if frame[:4] == b"\0\0\0\2":
                    found.append(frame[30:])
                    connection.sendall(b"FIN %b\n" % frame[14:30])
                elif frame[4:] == b"_heartbeat_":
                    connection.sendall(b"NOP\n")
    return found


def _post(nsqd: Daemon, path: str, body: bytes = b"") -> None:
    request = urllib.request.Request(f"http://{nsqd.http}{path}", body, method="POST")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


# --- a tool --------------------------------------------------------------------------------------


class Tool:
    """A running tool, with what it says in files."""

    def __init__(self, home: Path, name: str, *flags: str) -> None:
        self._log = home / f"{name}.stderr"
        self._output = home / f"{name}.stdout"
        with self._log.open("wb") as log, self._output.open("wb") as output:
            self.process = start([f"{PATH}/{name}", *flags], output, log)

    def output(self) -> str:
        """All of stdout so far."""
        return self._output.read_text(errors="replace")

    def said(self) -> str:
        """All of stderr so far."""
        return self._log.read_text(errors="replace")

    def wait_until_said(self, text: str, times: int = 1) -> None:
        """Until stderr holds the text so often."""
        wait_until(
            lambda: self.said().count(text) >= times or self.process.poll() is not None,
            lambda: f"no {text!r} in\n{self.said()}",
        )
        assert self.said().count(text) >= times, self.said()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Until it has ended; the exit code."""
        try:
            return self.process.wait(WAIT_S_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running\n{self.said()}") from None

    def close(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(home: Path, name: str, *flags: str) -> Iterator[Tool]:
    """A tool, which does not outlive the block."""
    tool = Tool(home, name, *flags)
    try:
        yield tool
    finally:
        tool.close()


# --- an HTTP endpoint ----------------------------------------------------------------------------


class Request(NamedTuple):
    """What came; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Sink:
    """An HTTP server that keeps the requests it gets.

    `answer` makes a status of a request, or one of the words below. A status of 3xx comes with
    `elsewhere` as the Location; what is asked for there is answered with 200.
    """

    HANG, CLOSE, HALF = "hang", "close", "half"
    elsewhere = THERE = "/redirected"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.answer: Callable[[Request], int | str] = lambda request: 200
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True).start()

    def bodies(self) -> Iterable[bytes]:
        """The bodies of the requests so far."""
        return [request.body for request in list(self.requests)]

    def secure(self, tls: ssl.SSLContext) -> None:
        """Speak https from now on."""
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def close(self) -> None:
        """End it, and all that hangs."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet

            def setup(self) -> None:
                super().setup()
                sink.connections += 1

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, self.rfile.read(length))
                answer = sink.answer(request)
                sink.requests.append(request)
                if isinstance(answer, int):
                    self._answer(answer)
                    return
                if answer == Sink.HANG:
                    sink.released.wait()
                elif answer == Sink.HALF:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-")
                self.close_connection = True

            do_POST = do_GET

            def _answer(self, status: int) -> None:
                moves = 300 <= status < 400 and self.path != Sink.THERE
                self.send_response(200 if self.path == Sink.THERE else status)
                if moves:
                    self.send_header("Location", sink.elsewhere)
                if status != 204:
                    self.send_header("Content-Length", "2")
                self.end_headers()
                if status != 204:
                    self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def serving(answer: Callable[[Request], int | str] | int | str = 200) -> Iterator[Sink]:
    """A sink with this answer to every request."""
    sink = Sink()
    sink.answer = answer if callable(answer) else lambda request: answer
    try:
        yield sink
    finally:
        sink.close()

"""An auth server for tests: to each secret its answer, byte by byte if need be.

It runs in a thread, so that it answers in-loop daemons and daemon processes alike, and takes one
request a connection. ``answers[secret]`` are the bytes of the whole HTTP answer; SLOW stands for
none at all; a tuple is used up one by one, its last item staying.
"""

from __future__ import annotations

import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

SLOW = b""
TIMEOUT_S = 60.0


class Asked(NamedTuple):
    """One request; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def secret(self) -> str:
        query = urlsplit(self.target).query
        found = parse_qs(query) if not self.body else json.loads(self.body)
        return str(found.get("secret", [""])[0])


def http(body: Any, status: str = "200 OK", *headers: str) -> bytes:
    """An HTTP answer; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def chunked(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7])
              for i in range(0, len(body), 7)]  # fmt: skip
    return head + b"".join(chunks) + b"0\r\n\r\n"


def entry(topic: str = ".*", channels: Any = (".*",), permissions: Any = None) -> dict[str, Any]:
    """An authorization; by default of everything."""
    words = ["subscribe", "publish"] if permissions is None else permissions
    return {"topic": topic, "channels": list(channels), "permissions": words}


def granted(*entries: dict[str, Any], ttl: Any = 60, **fields: Any) -> bytes:
    """The HTTP answer with these authorizations, or with one of everything."""
    return http({"ttl": ttl, "authorizations": list(entries) or [entry()], **fields})


class AuthServer:
    """What it answers and what it was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.answers: dict[str, bytes | tuple[bytes, ...]] = {}
        self.asked: list[Asked] = []
        self.stalls = False
        """Whether connections stay open after the answer, complete or not."""
        self.at_once = 0
        """The most requests that were unanswered at one time."""
        self._open = 0
        self._lock = threading.Lock()
        self.released = threading.Event()
        """Set, it ends all SLOW answers."""

    def asked_by(self, secret: str) -> list[Asked]:
        with self._lock:
            return [each for each in self.asked if each.secret == secret]

    def begin(self, asked: Asked) -> bytes:
        with self._lock:
            self.asked.append(asked)
            self._open += 1
            self.at_once = max(self.at_once, self._open)
            answer = self.answers.get(asked.secret, http({}, "404 Not Found"))
            if isinstance(answer, tuple):
                first, *rest = answer
                self.answers[asked.secret] = tuple(rest) if rest else answer
                return first
            return answer

    def end(self) -> None:
        with self._lock:
            self._open -= 1


@contextmanager
def run_auth_server(tls: ssl.SSLContext | None = None) -> Iterator[AuthServer]:
    """Runs one on a free port until the end of the block."""
    auth = AuthServer()

    class Handler(socketserver.StreamRequestHandler):
        timeout = TIMEOUT_S

        def handle(self) -> None:
            if tls is not None:
                try:
                    self.connection = tls.wrap_socket(self.connection, server_side=True)
                except OSError:
                    return
                self.rfile = self.connection.makefile("rb")
            words = self.rfile.readline().decode("latin-1").split(" ")
            headers = {}
            while line := self.rfile.readline().strip():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", "0")))
            if len(words) < 3:
                return
            answer = auth.begin(Asked(words[0], words[1], headers, body))
            try:
                if answer == SLOW:
                    auth.released.wait(TIMEOUT_S)
                self.connection.sendall(answer)
                if auth.stalls:
                    auth.released.wait(TIMEOUT_S)
            except OSError:
                pass  # it did not want to hear it all
            finally:
                auth.end()

        def finish(self) -> None:
            super().finish()
            self.connection.close()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Handler) as server:
        auth.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield auth
        finally:
            auth.released.set()
            server.shutdown()
            thread.join()

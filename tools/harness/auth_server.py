"""An auth server that answers by script: to each secret its own answers, noting what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from .patience import PATIENT

UNKNOWN_SECRET = 404


class Asked(NamedTuple):
    """One request as nsqd sent it; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


class AuthServer:
    """Answers are told by `answer`; the last one of a secret is repeated."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.flags = [f"--auth-http-address={address}", *PATIENT]
        """Those of an nsqd that asks it, and waits for this process on a busy machine."""
        self._answers: dict[str, list[tuple[int, str]]] = {}
        self._asked: dict[str, list[Asked]] = {}
        self._lock = threading.Lock()

    def answer(self, secret: str, *answers: tuple[int, str]) -> None:
        """From now on this secret gets these answers (status, body) in turn, asked afresh."""
        with self._lock:
            self._answers[secret] = list(answers)
            self._asked.pop(secret, None)

    def allow(self, secret: str, topic: str = ".*", ttl: int = 60, **fields: Any) -> None:
        """Let a secret publish and subscribe to topics that match."""
        entry = {"topic": topic, "channels": [".*"], "permissions": ["subscribe", "publish"]}
        body = {"ttl": ttl, "authorizations": [entry], **fields}
        self.answer(secret, (200, json.dumps(body)))

    def asked(self, secret: str) -> list[Asked]:
        """The requests that named this secret."""
        with self._lock:
            return list(self._asked.get(secret, ()))

    def take(self, request: Asked) -> tuple[int, str]:
        """Note a request; its answer."""
        secret = secret_of(request.path, request.body)
        with self._lock:
            self._asked.setdefault(secret, []).append(request)
            answers = self._answers.get(secret) or [(UNKNOWN_SECRET, "")]
            return answers.pop(0) if len(answers) > 1 else answers[0]


def secret_of(path: str, body: str = "") -> str:
    """The secret in a query string or, for POST, in the JSON body."""
    query = json.loads(body) if body else parse_qs(urlsplit(path).query)
    return str(query.get("secret", [""])[0])


@contextmanager
def run_auth_server() -> Iterator[AuthServer]:
    """Runs one on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(size).decode()
            status, text = auth.take(Asked(self.command, self.path, headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests look at what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    auth = AuthServer(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield auth
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

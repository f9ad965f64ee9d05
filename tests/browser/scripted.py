"""Daemons that answer what a test says, in threads of their own: the tests here are blocking."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_NOT_FOUND = (404, '{"message":"NOT_FOUND"}')


class Scripted(ThreadingHTTPServer):
    """`answers` are by path, or by path and query where those are there: JSON, or a status and a
    text. 404 for others.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer()

    def _answer(self) -> None:
        answers = self.server.answers
        found = answers.get(self.path, answers.get(urlsplit(self.path).path, _NOT_FOUND))
        status, text = found if isinstance(found, tuple) else (200, json.dumps(found))
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def scripted() -> Iterator[Scripted]:
    """One of them, until the end of the block."""
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

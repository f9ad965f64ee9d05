"""Pages of another site, and a reverse proxy between a browser and the daemons."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

_PASSED_ON = ("Content-Type", "Accept", "Origin", "Sec-Fetch-Site")


class _EmptyPage(BaseHTTPRequestHandler):
    """Answers any path with an empty page, in which a test acts as the page's author."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep stderr empty."""


class _Passing(_EmptyPage):
    """Forwards requests to the proxy's `upstream` with that `Host`; a header has the original."""

    server: Proxy

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        headers["X-Forwarded-Host"] = self.headers["Host"]
        connection = http.client.HTTPConnection(self.server.upstream, timeout=30)
        connection.request(self.command, self.path, self.rfile.read(size), headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET


class Proxy(ThreadingHTTPServer):
    """A reverse proxy for `upstream`, which is `host:port`."""

    upstream = ""


@contextmanager
def empty_pages() -> Iterator[int]:
    """A site of empty pages; yields its port on 127.0.0.1."""
    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage)) as server:
        yield server.server_port


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A reverse proxy whose `upstream` the test must set."""
    with _serving(Proxy(("127.0.0.1", 0), _Passing)) as server:
        yield server


ServerT = TypeVar("ServerT", bound=ThreadingHTTPServer)


@contextmanager
def _serving(server: ServerT) -> Iterator[ServerT]:
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()

"""An HTTP endpoint that fails when a body tells it to."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint:
    """Answers a body ``500 2`` with 500 twice, then 200; any other with 200.

    With 503 it says that the client may come again at once, and with ``retry_after`` when.
    """

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.Lock()
        self.tries: dict[str, int] = {}
        self.headers: list[dict[str, str]] = []
        self.answer_bytes = 0
        self.retry_after: str | None = None
        self.gate = threading.Barrier(1)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = endpoint.answer(body, dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", str(endpoint.answer_bytes))
                if status == 503:
                    self.send_header("Retry-After", endpoint.retry_after or "0")
                self.end_headers()
                with suppress(ConnectionError):  # a client need not read all of it
                    self.wfile.write(bytes(endpoint.answer_bytes))
                self.close_connection = endpoint.answer_bytes > 0

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/events"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self, body: str, headers: dict[str, str]) -> int:
        with self.lock:
            self.headers.append(headers)
            self.tries[body] = self.tries.get(body, 0) + 1
        if body == "together":
            self.gate.wait(60)
        status, _, times = body.partition(" ")
        if not status.isdecimal() or self.tries[body] > int(times):
            return 200
        return int(status)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

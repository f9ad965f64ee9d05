"""What the tools talk to in the recorded runs besides nsqd: HTTP servers, a scripted nsqd."""

from __future__ import annotations

import json
import re
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tools.harness.streams import exactly

Request = dict[str, Any]


class Sink:
    """An HTTP server that notes what it is asked and answers as the case says."""

    def __init__(self, name: str, requests: list[Request]) -> None:
        self.name = name
        self.requests = requests
        self.reset()

    def reset(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Answer so from now on."""
        self.status, self.body, self.headers = status, body, headers
        self.statuses: list[int] = []
        self.delay_s = 0.0

    def note(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        redirected = handler.path == "/redirected"
        # Before it is noted, because the case that waits for it may end then.
        status = 200 if redirected else self.statuses.pop(0) if self.statuses else self.status
        headers, body, delay_s = self.headers, self.body, self.delay_s
        self.requests.append(
            {
                "method": handler.command,
                "to": self.name,
                "path": handler.path,
                "headers": {name.lower(): value for name, value in handler.headers.items()},
                "body": handler.rfile.read(length).decode(),
            }
        )
        time.sleep(delay_s)
        handler.send_response(status)
        if 300 <= status < 400:
            handler.send_header("Location", "/redirected")
        for name, value in headers.items():
            handler.send_header(name, value)
        if status != 204:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if status != 204:
            handler.wfile.write(body)


@contextmanager
def run_sink(name: str, requests: list[Request]) -> Iterator[tuple[Sink, str]]:
    """The sink and its address."""
    sink = Sink(name, requests)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sink.note(self)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing: the requests are noted."""

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the tool has gone

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield sink, address


class FakeNsqd:
    """Answers IDENTIFY with a text and everything else that has an answer with OK."""

    def __init__(self) -> None:
        self.reset("OK")

    def reset(self, answer: str) -> None:
        """Answer IDENTIFY so from now on."""
        self.answer = answer
        self.identify: list[bytes] = []
        self.rest: list[bytes] = []

    def serve(self, connection: Any) -> None:
        connection.settimeout(60.0)
        try:
            self._serve(connection)
        except OSError:
            return

    def _serve(self, connection: Any) -> None:
        identify, rest = self.identify, self.rest  # of this case, however late its last bytes come
        magic = exactly(connection, len("  V2IDENTIFY\n") + 4)
        size = struct.unpack(">I", magic[-4:])[0]
        identify.append(exactly(connection, size))
        connection.sendall(_frame(self.answer.encode()))
        while data := connection.recv(65536):
            rest.append(data)
            if data.startswith((b"SUB", b"PUB")):
                connection.sendall(_frame(b"OK"))


@contextmanager
def run_fake_nsqd() -> Iterator[tuple[FakeNsqd, str]]:
    """The fake and its address."""
    fake = FakeNsqd()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            fake.serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with _served(Server(("127.0.0.1", 0), Handler)) as address:
        yield fake, address


@contextmanager
def _served(server: socketserver.BaseServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*cast(tuple[str, int], server.server_address))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def lookup_answer(tcp: str, *, wrapped: bool) -> bytes:
    """What a nsqlookupd says of a topic on the node at this address."""
    host, _, port = tcp.rpartition(":")
    node = {"broadcast_address": host, "tcp_port": int(port), "http_port": 0, "hostname": host,
            "version": "1.3.0", "remote_address": "127.0.0.1:1"}  # fmt: skip
    answer: Any = {"channels": [], "producers": [node]}
    if wrapped:
        answer = {"status_code": 200, "status_txt": "OK", "data": answer}
    return json.dumps(answer).encode()


def statuses_of(case_name: str, setup: str) -> list[int]:
    """What the first requests of a case are answered with."""
    if found := re.search(r"\{sink\} answers (\d+);", setup):
        return [int(found[1])] * 50
    if found := re.search(r"redirected with (\d+)", case_name):
        return [int(found[1])]
    return [500] if "first fails" in case_name else []


def _frame(data: bytes) -> bytes:
    return struct.pack(">II", len(data) + 4, 0) + data


@contextmanager
def run_sinks(*names: str) -> Iterator[tuple[dict[str, Sink], dict[str, str], list[Request]]]:
    """Sinks that share one list of requests: by name, their addresses by name, the list."""
    requests: list[Request] = []
    sinks, addresses = {}, {}
    with ExitStack() as stack:
        for name in names:
            sinks[name], addresses[name] = stack.enter_context(run_sink("{" + name + "}", requests))
        yield sinks, addresses, requests

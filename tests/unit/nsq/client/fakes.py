"""Small stand-ins for nsqd and for HTTP servers, in threads, so that both clients meet the same."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.nsq.protocol import frames
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import (
    Auth,
    Close,
    Event,
    Failure,
    Finish,
    Identify,
    Nop,
    Publish,
    Ready,
    Requeue,
    State,
    Subscribe,
    Touch,
)

INFO = {"max_rdy_count": 2500, "version": "1.3.0", "msg_timeout": 60000, "auth_required": False}


class FakeNsqd:
    """One queue of messages for all topics and channels, and a record of what was asked."""

    def __init__(self, **info: Any) -> None:
        self.info = INFO | info
        self.asked: list[Event] = []
        self.published: list[tuple[str, list[bytes]]] = []
        self.finished: list[bytes] = []
        self.requeued: list[tuple[bytes, int]] = []
        self.refusals: dict[str, str] = {}
        self.refuse: Callable[[list[bytes]], str] = lambda bodies: ""
        self.silent = False
        self.changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._count = 0
        self._sessions: list[_Session] = []
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._listener)

    def _start(self, listener: socket.socket) -> None:
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self._run(self._accept, listener)

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                session = _Session(self, peer)
                with self.changed:
                    self._sessions.append(session)
                    if self._closed:  # in this very moment
                        session.close()
                self._run(session.run)

    def put(self, *bodies: bytes, attempts: int = 1) -> None:
        """Queue messages and deliver what can be delivered."""
        with self.changed:
            for body in bodies:
                self._count += 1
                self._queue.append(frames.message(5, attempts, b"%016x" % self._count, body))
            self.deliver()

    def deliver(self) -> None:
        for session in self._sessions:
            session.deliver(self._queue)
        self.changed.notify_all()

    def send(self, data: bytes) -> None:
        """Say something on every connection."""
        with self.changed:
            for session in self._sessions:
                session.send(data)

    def drop_connections(self) -> None:
        with self.changed:
            for session in self._sessions:
                session.close()

    def wait(self, condition: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 120), self.asked

    @property
    def last_ready(self) -> int:
        """The RDY asked for last, over all connections."""
        return next((e.count for e in reversed(self.asked) if isinstance(e, Ready)), 0)

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.asked)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self.changed:
            self._closed = True
        self.drop_connections()
        for thread in self._threads:  # the first takes no more connections, so there are no more
            thread.join()
        self._listener.close()


class _Session:
    def __init__(self, server: FakeNsqd, peer: socket.socket) -> None:
        self.server = server
        self.peer = peer
        self.reader = CommandReader(expect_magic=True)
        self.ready = 0
        self.in_flight = 0
        self.closed = False

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.peer.recv(65536):
                self.reader.receive_data(data)
                while (event := self.reader.next_event()) is not None:
                    with self.server.changed:
                        if self.closed:
                            break
                        self.server.asked.append(event)
                        if not self.server.silent:
                            self.handle(event)
                        self.server.deliver()
        with self.server.changed:
            self.server._sessions.remove(self)
            self.close()
            self.server.changed.notify_all()

    def handle(self, event: Event) -> None:
        server = self.server
        text = server.refusals.get(type(event).__name__)
        if text or isinstance(event, Failure):
            self.send(frames.error(text or event.text))  # type: ignore[union-attr]
            self.close()
        elif isinstance(event, Identify):
            self.send(frames.response(json.dumps(server.info).encode()))
        elif isinstance(event, Auth):
            self.send(frames.response(b"{}"))
        elif isinstance(event, Subscribe):
            self.reader.state = State.SUBSCRIBED
            self.send(frames.OK_FRAME)
        elif isinstance(event, Publish):
            self.publish(event.topic, event.bodies.to_list())
        elif isinstance(event, Close):
            self.reader.state = State.CLOSING
            self.ready = 0
            self.send(frames.CLOSE_WAIT_FRAME)
        else:
            self.settle(event)

    def publish(self, topic: str, bodies: list[bytes]) -> None:
        if text := self.server.refuse(bodies):
            self.send(frames.error(text))
            self.close()
        else:
            self.server.published.append((topic, bodies))
            self.send(frames.OK_FRAME)

    def settle(self, event: Event) -> None:
        if isinstance(event, Ready):
            self.ready = event.count
        elif isinstance(event, Finish):
            found = [b"%016x" % number for number in map(int, event.ids)]
            self.server.finished += found
            self.in_flight -= len(found)
        elif isinstance(event, Requeue):
            self.server.requeued.append((event.id, event.delay_ns // 10**6))
            self.in_flight -= 1
        else:
            assert isinstance(event, Touch | Nop)

    def deliver(self, queue: deque[bytes]) -> None:
        out = b""
        while queue and self.in_flight < self.ready:
            out += queue.popleft()
            self.in_flight += 1
        self.send(out)

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.peer.sendall(data)

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()


@contextlib.contextmanager
def fake_nsqd(**info: Any) -> Iterator[FakeNsqd]:
    server = FakeNsqd(**info)
    try:
        yield server
    finally:
        server.close()


Answer = tuple[int, dict[str, str], bytes]


class FakeHttp(ThreadingHTTPServer):
    """Answers by path: (status, headers, body); records (method, path with query, body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.hang_up_after = 1_000_000
        self.address = f"127.0.0.1:{self.server_address[1]}"

    def json(self, path: str, answer: Any, status: int = 200) -> None:
        self.answers[path] = (status, {}, json.dumps(answer).encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHttp

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.served = 0

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.server.requests.append((self.command, self.path, self.rfile.read(length)))
        self.server.headers.append(dict(self.headers))
        path = self.path.partition("?")[0]
        missing: Answer = (404, {}, b'{"message":"NOT_FOUND"}')
        status, headers, body = self.server.answers.get(path, missing)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.served += 1
        # Hangs up without a word, as a server does with a connection idle for long.
        self.close_connection = self.served >= self.server.hang_up_after

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def fake_http() -> Iterator[FakeHttp]:
    server = FakeHttp()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def lookup_answer(*addresses: str) -> dict[str, Any]:
    """What nsqlookupd says of nodes with these TCP addresses."""
    producers = [
        {
            "broadcast_address": address.rpartition(":")[0],
            "tcp_port": int(address.rpartition(":")[2]),
            "http_port": 1,
            "hostname": "h",
            "version": "1.3.0",
        }
        for address in addresses
    ]
    return {"channels": [], "producers": producers}

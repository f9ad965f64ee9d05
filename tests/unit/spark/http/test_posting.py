"""Posting to a real HTTP server that fails when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.http import posting
from penstock.spark.http.posting import Poster, Refused
from penstock.spark.http.settings import Settings
from tests.ports import unused_address


class Endpoint:
    """Answers a body ``500 2`` with 500 twice, then 200; any other with 200."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tries: dict[str, int] = {}
        self.headers: list[dict[str, str]] = []
        self.at_once = self.at_once_max = 0
        self.gate = threading.Barrier(1)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = endpoint.answer(body, dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/events"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self, body: str, headers: dict[str, str]) -> int:
        with self.lock:
            self.headers.append(headers)
            self.tries[body] = self.tries.get(body, 0) + 1
        if body == "together":
            self.gate.wait(20)
        status, _, times = body.partition(" ")
        if not status.isdecimal() or self.tries[body] > int(times):
            return 200
        return int(status)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(posting, "_PAUSE_FIRST_S", 0.001)
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def post(url: str, *bodies: str, **options: str) -> list[Refused]:
    with Poster(Settings.parse({"url": url, **options})) as poster:
        return list(poster.post_all((url, body.encode()) for body in bodies))


def test_what_may_pass_is_tried_again(endpoint: Endpoint) -> None:
    assert post(endpoint.url, "one", "500 2", "429 1", "408 1", **{"header.X-Key": "k"}) == []
    assert endpoint.tries == {"one": 1, "500 2": 3, "429 1": 2, "408 1": 2}
    assert {headers["X-Key"] for headers in endpoint.headers} == {"k"}
    assert {headers["Content-Type"] for headers in endpoint.headers} == {"application/octet-stream"}


def test_what_is_refused_is_told_in_order(endpoint: Endpoint) -> None:
    assert post(endpoint.url, "one", "400 9", "503 9", "302 9", retries="1") == [
        Refused(endpoint.url, b"400 9", "status 400"),
        Refused(endpoint.url, b"503 9", "status 503 (2 tries)"),
        Refused(endpoint.url, b"302 9", "status 302"),
    ]
    assert endpoint.tries == {"one": 1, "400 9": 1, "503 9": 2, "302 9": 1}


def test_as_many_requests_at_once_as_the_option_says(endpoint: Endpoint) -> None:
    endpoint.gate = threading.Barrier(3)  # opens only when three requests wait
    assert post(endpoint.url, *["together"] * 3, concurrency="3") == []


def test_nobody_answers_and_no_url() -> None:
    (refused,) = post(f"http://{unused_address()}/", "x", retries="0")
    assert refused.reason == "connection refused (1 tries)"
    with pytest.raises(OptionError, match="url must be http"), Poster(Settings()) as poster:
        list(poster.post_all([("nowhere", b"x")]))

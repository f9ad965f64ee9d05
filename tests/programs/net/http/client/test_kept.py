"""A blocking connection that is kept."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.net.http.client.kept import KeptConnection, Tls
from tests.programs.net.conftest import TIMEOUT_S
from tests.unit.net.certificates import Certificates

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: v\r\n\r\nhi"


@pytest.fixture
def serve() -> Iterator[Callable[..., list[bytes]]]:
    """Starts a server with a list of answers for each connection; gives back what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(*connections: list[bytes]) -> list[bytes]:
        heard: list[bytes] = []

        def run() -> None:
            for answers in connections:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return  # the test is over, and has not asked for this connection
                with peer:
                    for answer in answers:
                        heard.append(_request(peer))
                        peer.sendall(answer)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return heard

    start.port = listener.getsockname()[1]  # type: ignore[attr-defined]
    yield start
    listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept, which a close does not
    for thread in threads:
        thread.join()
    listener.close()


def _request(peer: socket.socket) -> bytes:
    data = peer.recv(65536)
    while data.startswith(b"POST") and not data.endswith(b"body"):
        data += peer.recv(65536)
    return data


def connection(serve: Callable[..., list[bytes]]) -> KeptConnection:
    return KeptConnection("127.0.0.1", serve.port, TIMEOUT_S, 100)  # type: ignore[attr-defined]


def test_one_connection_for_several_requests(serve: Callable[..., list[bytes]]) -> None:
    heard = serve([OK, OK])
    kept = connection(serve)
    reply = kept.ask("GET", "/a?b")
    assert (reply.status, reply.headers["x-name"], reply.body) == (200, "v", b"hi")
    assert kept.ask("POST", "/c", b"body").body == b"hi"
    assert heard[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert heard[1].endswith(b"\r\n\r\nbody")
    kept.close()


def test_one_that_was_closed_meanwhile_is_replaced(serve: Callable[..., list[bytes]]) -> None:
    heard = serve([OK], [OK])
    kept = connection(serve)
    for _ in range(2):
        assert kept.ask("GET", "/").status == 200
    assert len(heard) == 2
    kept.close()


def test_a_new_one_that_fails_is_not(serve: Callable[..., list[bytes]]) -> None:
    serve([b""], [OK])
    with pytest.raises(ConnectionError):
        connection(serve).ask("GET", "/")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"
        + b"x" * 101
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 101,
    ],
)
def test_an_answer_has_a_limit(serve: Callable[..., list[bytes]], answer: bytes) -> None:
    serve([answer], [OK])
    kept = connection(serve)
    with pytest.raises(http.client.HTTPException, match="more than 100 bytes"):
        kept.ask("GET", "/")
    assert kept.ask("GET", "/").body == b"hi"  # over another connection
    kept.close()


def test_a_server_without_room_just_now_is_asked_again(
    serve: Callable[..., list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n"
    heard = serve([busy % 1, busy % 3600, OK])
    kept = connection(serve)
    assert kept.ask("GET", "/x").status == 200
    assert (len(heard), waits) == (3, [1, 5])
    kept.close()


def test_one_that_only_refuses_is_not(serve: Callable[..., list[bytes]]) -> None:
    serve([b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"])
    kept = connection(serve)
    assert kept.ask("GET", "/x").status == 503
    kept.close()


def test_a_refusal_that_comes_before_the_body_is_sent_is_read() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(refusal)

        thread = threading.Thread(target=refuse)
        thread.start()
        kept = KeptConnection("127.0.0.1", server.getsockname()[1], TIMEOUT_S, 100)
        reply = kept.ask("POST", "/", bytes(64 << 20))
        thread.join()
        kept.close()
    assert (reply.status, reply.body) == (413, b"big")


def test_headers_and_another_name_in_the_certificate(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    listener = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    listener.load_cert_chain(files.cert, files.key)
    heard: list[bytes] = []
    with listener.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as server:

        def serve() -> None:
            for _ in range(2):
                with contextlib.suppress(ssl.SSLError):
                    peer, _ = server.accept()
                    with peer:
                        heard.append(peer.recv(65536))
                        peer.sendall(OK)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        for name in ("example.org", "localhost"):
            tls = Tls(files.context(), name)
            headers = {"X-Name": "v"}
            kept = KeptConnection("127.0.0.1", port, TIMEOUT_S, 100, tls=tls, headers=headers)
            if name == "localhost":
                assert kept.ask("GET", "/").body == b"hi"
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    kept.ask("GET", "/")
            kept.close()
        thread.join()
    assert b"\r\nX-Name: v\r\n" in heard[0]

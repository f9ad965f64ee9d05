from __future__ import annotations

from penstock.net.http.server.head import Head
from penstock.net.http.server.message import SMALL, DateLine, Request, Response, encode, text
from penstock.testing.clock import FakeClock
from tests.http_heads import parse_head


def head(line: str = "GET / HTTP/1.1", connection: str = "") -> Head:
    return parse_head(f"{line}\r\nHost: h\r\nConnection: {connection}\r\n\r\n".encode())


def encoded(response: Response, line: str = "GET / HTTP/1.1", connection: str = "") -> bytes:
    return b"".join(encode(response, head(line, connection), b"Date: now\r\n"))


def test_the_order_is_gos() -> None:
    response = Response(200, b"OK", "text/plain", (("X-B", "b"), ("Allow", "a")))
    start = b"HTTP/1.1 200 OK\r\nAllow: a\r\nX-B: b\r\nDate: now\r\nContent-Length: 2\r\n"
    assert encoded(response) == start + b"Content-Type: text/plain\r\n\r\nOK"
    assert encoded(response, connection="close").endswith(b"\r\nConnection: close\r\n\r\nOK")


def test_http10() -> None:
    assert encoded(Response(), "GET / HTTP/1.0") == (
        b"HTTP/1.0 200 OK\r\nDate: now\r\nContent-Length: 0\r\n\r\n"
    )
    kept = encoded(Response(), "GET / HTTP/1.0", "keep-alive")
    assert b"\r\nConnection: keep-alive\r\n\r\n" in kept


def test_head_has_a_length_and_no_body() -> None:
    answer = encoded(Response(405, b"no"), "HEAD / HTTP/1.1")
    assert answer.endswith(b"Content-Length: 2\r\n\r\n")


def test_a_small_response_is_put_together_once_for_each_date() -> None:
    response, usual = Response(200, b"OK"), head()
    now, later = b"Date: now\r\n", b"Date: later\r\n"
    first = encode(response, usual, now)
    assert len(first) == 1
    assert encode(response, usual, now) is first
    assert encoded(response, connection="close").endswith(b"Connection: close\r\n\r\nOK")
    assert encoded(response, "HEAD / HTTP/1.1").endswith(b"Content-Length: 2\r\n\r\n")
    assert b"".join(encode(response, usual, later)) == bytes(first[0]).replace(b"now", b"later")


def test_a_large_body_is_not_copied() -> None:
    body = bytes(SMALL + 1)
    assert any(piece is body for piece in encode(Response(200, body), head(), b"Date: now\r\n"))


def test_a_body_in_parts() -> None:
    answer = encoded(Response(299, [b"a", memoryview(b"bc")]))
    assert answer.startswith(b"HTTP/1.1 299 Unknown\r\n")
    assert answer.endswith(b"Content-Length: 3\r\n\r\nabc")


def test_text() -> None:
    assert text("é").body == "é".encode()


def test_date_line_changes_with_the_second() -> None:
    clock = FakeClock(0)
    date = DateLine(clock)
    assert date() == b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
    clock.advance(999_999_999)
    assert date() is date()
    clock.advance(1)
    assert date() == b"Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n"


def test_request_shows_its_head() -> None:
    request = Request(head("PUT /a%20b?c HTTP/1.1"), "p", b"body", lambda: "1.2.3.4:5")
    assert (request.method, request.path, request.raw_path) == ("PUT", "/a b", "/a%20b")
    assert (request.query, request.param, request.body) == (b"c", "p", b"body")
    assert (request.headers[b"host"], request.remote) == (b"h", "1.2.3.4:5")

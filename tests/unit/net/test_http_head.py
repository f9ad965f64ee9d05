from __future__ import annotations

import pytest

from penstock.net.http_head import BadRequest, Head, parse_head


def head(*lines: str) -> Head:
    return parse_head("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))


def test_an_ordinary_head() -> None:
    found = head(
        "POST /pub?topic=a%20b&x HTTP/1.1", "Host: h", "X-A:  b ", "Content-Length: 5", "x-a: c"
    )
    assert (found.method, found.path, found.query) == ("POST", "/pub", b"topic=a%20b&x")
    assert found.target == "/pub?topic=a%20b&x"
    assert found.headers == {b"host": b"h", b"x-a": b"b", b"content-length": b"5"}
    assert (found.length, found.chunked, found.keep_alive) == (5, False, True)
    assert not found.expects_continue
    assert not found.is_http10


def test_paths() -> None:
    assert head("GET /config/a%2Fb%23 HTTP/1.1", "Host: h").path == "/config/a/b#"
    assert head("GET /config/a%2Fb HTTP/1.1", "Host: h").raw_path == "/config/a%2Fb"
    assert head("GET http://h:1/x?y HTTP/1.1", "Host: h").path == "/x"
    assert head("GET http://h HTTP/1.1", "Host: h").path == "/"
    assert head("OPTIONS * HTTP/1.1", "Host: h").path == "*"
    assert head("GET /%ff HTTP/1.1", "Host: h").path == "/\udcff"


@pytest.mark.parametrize(
    ("line", "connection", "keep_alive"),
    [
        ("GET / HTTP/1.1", "", True),
        ("GET / HTTP/1.1", "Close", False),
        ("GET / HTTP/1.1", "keep-alive", True),
        ("GET / HTTP/1.0", "", False),
        ("GET / HTTP/1.0", "Keep-Alive", True),
    ],
)
def test_keep_alive(line: str, connection: str, keep_alive: bool) -> None:
    assert head(line, "Host: h", f"Connection: {connection}").keep_alive is keep_alive


def test_framing() -> None:
    assert head("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: Chunked").chunked
    assert head("POST / HTTP/1.1", "Host: h", "Expect: 100-Continue").expects_continue
    assert head("GET / HTTP/1.0").is_http10
    repeated = head("POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Content-Length: 5")
    assert repeated.length == 5


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["HELLO"], "400 Bad Request"),
        (["  V2"], "400 Bad Request"),
        (["GET /a b HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET  HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET x HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET /%zz HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["G(T / HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET / HTTP/1.2", "Host: h"], "400 Bad Request"),
        (["GET / http/1.1", "Host: h"], "400 Bad Request"),
        (
            ["GET / HTTP/3.0", "Host: h"],
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
        (["GET / HTTP/1.1"], "400 Bad Request: missing required Host header"),
        (["GET / HTTP/1.1", "Host: h", "no colon"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "A : b"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", " folded"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "A: b\x00"], "400 Bad Request"),
        (["GET / HTTP/1.1", "Host: h", "Host: other"], "400 Bad Request"),
        (["POST / HTTP/1.1", "Host: h", "Content-Length: abc"], "400 Bad Request"),
        (["POST / HTTP/1.1", "Host: h", "Content-Length: +5"], "400 Bad Request"),
        (["POST / HTTP/1.1", "Host: h", "Content-Length: "], "400 Bad Request"),
        (["POST / HTTP/1.1", "Host: h", f"Content-Length: {'9' * 30}"], "400 Bad Request"),
        (
            ["POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Content-Length: 6"],
            "400 Bad Request",
        ),
        (
            ["POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Transfer-Encoding: chunked"],
            "400 Bad Request",
        ),
        (
            ["POST / HTTP/1.1", "Host: h", "Transfer-Encoding: gzip"],
            "501 Not Implemented: unsupported transfer encoding",
        ),
        (["POST / HTTP/1.1", "Host: h", "Expect: tea"], "417 Expectation Failed"),
    ],
)
def test_refused(lines: list[str], status: str) -> None:
    with pytest.raises(BadRequest) as caught:
        head(*lines)
    assert caught.value.status == status

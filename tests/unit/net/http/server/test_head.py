from __future__ import annotations

import httptools
import pytest

from penstock.net.http.server.head import BadRequestError, Head
from tests.http_heads import parse_head


def head(*lines: str) -> Head:
    return parse_head("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))


def test_an_ordinary_head() -> None:
    found = head(
        "POST /pub?topic=a%20b&x HTTP/1.1", "Host: h", "X-A:  b", "Content-Length: 5", "x-a: c"
    )
    assert (found.method, found.path, found.query) == ("POST", "/pub", b"topic=a%20b&x")
    assert found.target == "/pub?topic=a%20b&x"
    assert found.headers == {b"host": b"h", b"x-a": b"c", b"content-length": b"5"}
    assert found.repeated == {b"x-a"}
    assert (found.keep_alive, found.is_http10) == (True, False)


def test_paths() -> None:
    assert head("GET /config/a%2Fb%23 HTTP/1.1", "Host: h").path == "/config/a/b#"
    assert head("GET /config/a%2Fb?c HTTP/1.1", "Host: h").raw_path == "/config/a%2Fb"
    assert head("GET http://h:1/x?y HTTP/1.1", "Host: h").path == "/x"
    assert head("GET http://h:1/x?y HTTP/1.1", "Host: h").query == b"y"
    assert head("GET http://h HTTP/1.1", "Host: h").path == "/"
    assert head("GET http://h?y HTTP/1.1", "Host: h").raw_path == "/"
    assert head("OPTIONS * HTTP/1.1", "Host: h").path == "*"
    assert head("GET /%ff HTTP/1.1", "Host: h").path == "/\udcff"


@pytest.mark.parametrize(
    ("line", "connection", "keep_alive"),
    [
        ("GET / HTTP/1.1", None, True),
        ("GET / HTTP/1.1", "", True),
        ("GET / HTTP/1.1", "Close", False),
        ("GET / HTTP/1.1", "keep-alive", True),
        ("GET / HTTP/1.0", None, False),
        ("GET / HTTP/1.0", "", False),
        ("GET / HTTP/1.0", "Keep-Alive", True),
    ],
)
def test_versions_and_keep_alive(line: str, connection: str | None, keep_alive: bool) -> None:
    found = head(line, "Host: h", *([] if connection is None else [f"Connection: {connection}"]))
    assert found.keep_alive is keep_alive
    assert found.is_http10 is line.endswith("1.0")


def test_without_upgrade() -> None:
    for version in ("1.0", "1.1"):
        found = head(
            f"POST /a?b HTTP/{version}", "Host: h", "Connection: Upgrade", "Content-Length: 3"
        )
        found.headers[b"upgrade"] = b"h2c"
        again = parse_head(found.without_upgrade())
        assert (again.method, again.target) == ("POST", "/a?b")
        assert again.is_http10 is found.is_http10
        del found.headers[b"upgrade"]
        assert again.headers == found.headers


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /%zz HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET /%4 HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["CONNECT h:1 HTTP/1.1", "Host: h"], "400 Bad Request"),
        (["GET / HTTP/1.1"], "400 Bad Request: missing required Host header"),
        (
            ["GET / HTTP/2.0", "Host: h"],
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
    ],
)
def test_refused(lines: list[str], status: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        head(*lines)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "lines",
    [
        ["HELLO"],
        ["  V2"],
        ["GET /a b HTTP/1.1", "Host: h"],
        ["GET x HTTP/1.1", "Host: h"],
        ["GET / HTTP/3.0", "Host: h"],
        ["GET / HTTP/1.1", "Host: h", "no colon"],
        ["GET / HTTP/1.1", "Host: h", "A : b"],
        ["GET / HTTP/1.1", "Host: h", " folded"],
        ["GET / HTTP/1.1", "Host: h", "A: b\x00"],
        ["POST / HTTP/1.1", "Host: h", "Content-Length: abc"],
        ["POST / HTTP/1.1", "Host: h", "Content-Length: +5"],
        ["POST / HTTP/1.1", "Host: h", "Content-Length: "],
        ["POST / HTTP/1.1", "Host: h", f"Content-Length: {'9' * 30}"],
        ["POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Content-Length: 6"],
        ["POST / HTTP/1.1", "Host: h", "Content-Length: 5", "Transfer-Encoding: chunked"],
        ["POST / HTTP/1.1", "Host: h", "Transfer-Encoding: gzip"],
    ],
)
def test_what_the_parser_refuses(lines: list[str]) -> None:
    """What is relied on of httptools; above all that a body's length is never ambiguous."""
    with pytest.raises(httptools.HttpParserError):
        head(*lines)

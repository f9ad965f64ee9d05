"""Requests as a server reads them: heads, whole requests in pieces, refusals, known heads."""

from __future__ import annotations

from typing import Any

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.http.server.head import BadRequestError, Head
from penstock.net.http.server.known_heads import LONGEST, MOST, Known, KnownHeads
from penstock.net.http.server.message import Bare
from penstock.net.http.server.reader import CONTINUE, MAX_HEAD, RequestReader
from penstock.net.http.server.route import Route
from penstock.net.http.server.service import Request, Response, Router
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


LIMIT = 1000
GET = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /echo HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(chunks: list[bytes], ending: bytes = b"0\r\n\r\n") -> bytes:
    sized = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
    return CHUNKED + b"".join(sized) + ending


@pytest.fixture
def reader() -> RequestReader:
    return new_reader()


def new_router() -> Router:
    router = Router()
    router.add("POST", "/echo", lambda request: Response(), max_body=LIMIT)
    router.add("GET", "/ping", lambda request: Response())
    return router


def new_reader() -> RequestReader:
    return RequestReader(new_router(), lambda: "1.2.3.4:5")


def requests(reader: RequestReader) -> list[tuple[str, bytes]]:
    return [(event[0].path, event[0].body) for event in reader.events if isinstance(event, tuple)]


def refusal(reader: RequestReader) -> str:
    """The status of the last event, which ended the reading."""
    assert reader.ended
    assert not reader.unfinished
    event = reader.events[-1]
    if isinstance(event, Bare):
        return event.raw.split(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode()
    request, route = event
    assert not request.head.keep_alive
    response = route.handler(request)
    assert isinstance(response, Response)
    return str(response.status)


@given(st.lists(st.lists(st.binary(max_size=30)), max_size=4), st.integers(1, 60))
def test_any_cut_of_the_bytes_will_do(bodies: list[list[bytes]], size: int) -> None:
    reader = new_reader()
    data = b"".join(chunked(each) + post(b"".join(each)) + GET for each in bodies)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    expected = [("/echo", b"".join(each)) for each in bodies for _ in range(2)]
    found = requests(reader)
    assert [each for each in found if each[0] == "/echo"] == expected
    assert len(found) == 3 * len(bodies)
    assert not reader.unfinished
    assert not reader.ended


@pytest.mark.parametrize("size", [1, 1000])
def test_extensions_and_trailers_are_read_over(reader: RequestReader, size: int) -> None:
    data = chunked([], b"3;x=y\r\nabc\r\n0\r\nExpect: b\r\nHost: d\r\n\r\n") + GET
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert requests(reader) == [("/echo", b"abc"), ("/ping", b"")]
    assert reader.events[0][0].headers[b"host"] == b"h"  # type: ignore[index]


def test_what_is_unfinished(reader: RequestReader) -> None:
    reader.feed(b"")
    assert (reader.unfinished, reader.count) == (False, 0)
    reader.feed(GET[:3])
    assert (reader.unfinished, reader.count) == (True, 1)
    reader.feed(GET[3:])
    assert (reader.unfinished, reader.count) == (False, 1)
    reader.feed(post(b"abcd")[:-1])
    assert (reader.unfinished, reader.count, reader.size) == (True, 2, 3)


@pytest.mark.parametrize(
    "last", [b"HTTP/1.0\r\n\r\n", b"HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"]
)
def test_nothing_is_read_after_the_last_request(reader: RequestReader, last: bytes) -> None:
    reader.feed(b"GET /last " + last + GET)
    reader.feed(GET)
    assert requests(reader) == [("/last", b"")]
    assert reader.ended


@pytest.mark.parametrize("count", [1, 3])
def test_an_upgrade_is_not_heard(reader: RequestReader, count: int) -> None:
    reader.feed(post(b"abc", UPGRADE) * count + GET)
    assert requests(reader) == [("/echo", b"abc")] * count + [("/ping", b"")]


def test_an_upgrade_in_pieces(reader: RequestReader) -> None:
    data = post(b"abc", UPGRADE, "Expect: 100-continue") + GET
    for start in range(len(data)):
        reader.feed(data[start : start + 1])
    assert reader.events[0] is CONTINUE
    assert requests(reader) == [("/echo", b"abc"), ("/ping", b"")]


@pytest.mark.parametrize("upgrade", [(), (UPGRADE,)])
def test_headers_that_come_twice(reader: RequestReader, upgrade: tuple[str, ...]) -> None:
    reader.feed(post(b"", *upgrade, "X-A: 1", "x-a: 2"))
    reader.feed(chunked([b"c"], b"0\r\nX-B: 1\r\nX-B: 2\r\n\r\n"))
    reader.feed(post(b"", *upgrade, "X-A: 1"))
    found = [event[0].head.repeated for event in reader.events if isinstance(event, tuple)]
    assert found == [{b"x-a"}, set(), set()]


def test_continue_goes_before_the_body(reader: RequestReader) -> None:
    reader.feed(post(b"abc", "Expect: 100-Continue")[:-3])
    assert reader.events == [CONTINUE]
    reader.feed(b"abc")
    assert requests(reader) == [("/echo", b"abc")]
    reader.feed(b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
    assert len(reader.events) == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"  V2IDENTIFY\n\0\0\0\2{}", "400 Bad Request"),
        (b"HELLO\r\n\r\n", "400 Bad Request"),
        (b"GET /ping\r\n\r\n", "400 Bad Request"),
        (b"GET /ping HTTP/1.1\nHost: h\n\n", "400 Bad Request"),
        (b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", "400 Bad Request"),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", "400 Bad Request"),
        (post(b"", "Content-Length: abc"), "400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", "400 Bad Request: missing required Host header"),
        (post(b"", "host: b"), "400 Bad Request: too many Host headers"),
        (
            post(b"", "Authorization: a", "authorization: a"),
            "400 Bad Request: too many Authorization headers",
        ),
        (
            post(b"", "Origin: http://a", "Origin: http://h"),
            "400 Bad Request: too many Origin headers",
        ),
        (
            post(b"", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"),
            "400 Bad Request: too many Sec-Fetch-Site headers",
        ),
        (post(b"", "Content-Length: 0"), "400 Bad Request"),
        (
            CHUNKED.replace(b"Transfer", b"Transfer-Encoding: gzip\r\nTransfer"),
            "501 Not Implemented: unsupported transfer encoding",
        ),
        (
            GET.replace(b"1.1", b"3.0"),
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
        (
            GET.replace(b"1.1", b"2.0"),
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
        (post(b"", "Expect: tea"), "417 Expectation Failed"),
        (
            CHUNKED.replace(b"chunked", b"gzip, chunked"),
            "501 Not Implemented: unsupported transfer encoding",
        ),
        (CHUNKED + b"xyz\r\n", "500"),
        (CHUNKED + b"3\r\nabcd\r\n", "500"),
        (CHUNKED + b"-1\r\n", "500"),
        (CHUNKED + b"1" * 17 + b"\r\n", "500"),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_refusals(reader: RequestReader, sent: bytes, status: str, size: int) -> None:
    data = GET + sent
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert refusal(reader) == status
    assert requests(reader)[0] == ("/ping", b"")
    told = len(reader.events)
    reader.feed(GET)
    assert len(reader.events) == told


def test_another_protocol_is_answered_at_its_first_line_end(reader: RequestReader) -> None:
    for byte in b"  V2SUB a b":
        reader.feed(bytes([byte]))
    assert reader.events == []
    reader.feed(b"\n")
    assert refusal(reader) == "400 Bad Request"


def test_the_limit_is_the_bodys_size(reader: RequestReader) -> None:
    reader.feed(post(b"x" * LIMIT) + chunked([b"x" * 999, b"y"]))
    assert [len(body) for _, body in requests(reader)] == [LIMIT, LIMIT]


@pytest.mark.parametrize(
    "sent",
    [
        post(b"x" * (LIMIT + 1))[: -LIMIT - 1],  # known before the body
        chunked([b"x" * 999, b"yz"]),
        post(b"x" * (LIMIT + 1), UPGRADE),
        post(b"x" * (LIMIT + 1), "Expect: 100-continue"),
    ],
)
def test_a_large_body(reader: RequestReader, sent: bytes) -> None:
    reader.feed(sent)
    assert refusal(reader) == "413"
    assert len(reader.events) == 1


@pytest.mark.parametrize(
    ("start", "more", "status"),
    [
        (b"GET / HTTP/1.1\r\nA: ", b"x" * 1000, "431 Request Header Fields Too Large"),
        (b"GET /", b"x" * 1000, "431 Request Header Fields Too Large"),
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 100, "431 Request Header Fields Too Large"),
        (CHUNKED + b"3\r\nabc\r\n0\r\n", b"A: b\r\n" * 100, "431 Request Header Fields Too Large"),
        (CHUNKED + b"3;", b"x" * 1000, "431 Request Header Fields Too Large"),
        (b"  V2", b"x" * 1000, "431 Request Header Fields Too Large"),
    ],
)
def test_what_has_no_end(reader: RequestReader, start: bytes, more: bytes, status: str) -> None:
    reader.feed(start)
    for _ in range(MAX_HEAD // len(more) + 1):
        reader.feed(more)
    assert refusal(reader) == status


def test_a_long_body_is_no_long_head(reader: RequestReader) -> None:
    reader._router.add("POST", "/big", lambda request: Response(), max_body=10 * MAX_HEAD)
    reader.feed(b"POST /big HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(5 * MAX_HEAD // 1000):
        reader.feed(b"1\r\nx\r\n" * 200)
    reader.feed(b"0\r\n\r\n")
    assert not reader.ended
    assert len(requests(reader)[0][1]) == 5 * MAX_HEAD // 1000 * 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [(GET[:5], "400 Bad Request"), (b"  V2", "400 Bad Request"), (post(b"abc")[:-1], "500")],
)
def test_the_end_in_the_midst(reader: RequestReader, sent: bytes, status: str) -> None:
    reader.feed(sent)
    reader.end()
    assert refusal(reader) == status


def test_the_end_between_requests(reader: RequestReader) -> None:
    reader.feed(GET)
    reader.end()
    assert (len(reader.events), reader.ended) == (1, True)


def test_give_up(reader: RequestReader) -> None:
    reader.feed(post(b"abc")[:-1])
    reader.give_up()
    assert refusal(reader) == "408 Request Timeout"


def test_close(reader: RequestReader) -> None:
    reader.feed(GET + GET[:5])
    reader.close()
    reader.feed(GET)
    reader.end()
    assert reader.events == []


def test_an_error_of_our_own_is_not_the_clients(reader: RequestReader) -> None:
    def resolve(method: str, path: str, query: bytes) -> None:
        raise KeyError(path)

    reader._router.resolve = resolve  # type: ignore[assignment,method-assign]
    with pytest.raises(httptools.HttpParserCallbackError) as caught:
        reader.feed(GET)
    assert isinstance(caught.value.__context__, KeyError)


def test_requests_know_their_client(reader: RequestReader) -> None:
    reader.feed(GET)
    event = reader.events[0]
    assert isinstance(event, tuple)
    assert isinstance(event[0], Request)
    assert event[0].remote == "1.2.3.4:5"


def test_a_body_of_tiny_chunks_is_held_as_one_piece() -> None:
    reader = new_reader()
    reader.feed(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    count = LIMIT // 2
    for _ in range(count):
        reader.feed(b"2\r\nab\r\n")
        assert len(reader._parts) < 256
    reader.feed(b"0\r\n\r\n")
    assert requests(reader) == [("/echo", b"ab" * count)]


# --- Heads that are known, and what a reader makes of them ---------------------------------------


PING = b"GET /ping?a=b HTTP/1.1\r\nHost: h\r\n\r\n"
EXPECTING = b"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
WITH_CHUNKS = (
    b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
)
UPGRADED = b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
LAST = b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@pytest.fixture
def router() -> Router:
    return new_router()


class Deaf(RequestReader):
    """A reader that fails when it has to read a head."""

    __slots__ = ()

    def on_message_begin(self) -> None:
        raise AssertionError("a known head was read again")


def told(reader: RequestReader) -> list[tuple[str, bytes, dict[bytes, bytes], bytes, str]]:
    events = [event for event in reader.events if isinstance(event, tuple)]
    assert len(events) == len(reader.events)
    return [(r.path, r.query, r.headers, r.body, r.remote) for r, _ in events]


def read(reader: RequestReader, data: bytes, size: int = 1 << 20) -> RequestReader:
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader


@pytest.mark.parametrize("sent", [PING, UPGRADED, post(b""), post(b"abc"), b"\r\n" + PING])
def test_a_head_is_read_once(router: Router, sent: bytes) -> None:
    first = read(RequestReader(router, lambda: "first"), sent)
    again = read(Deaf(router, lambda: "again"), sent * 3)
    (path, query, headers, body, _) = told(first)[0]
    assert told(again) == [(path, query, headers, body, "again")] * 3
    assert again.count == 3
    assert not again.unfinished
    assert not again.ended


def test_only_the_bytes_of_the_head_count(router: Router) -> None:
    read(RequestReader(router, lambda: ""), post(b"\r\n\r\n"))
    again = read(Deaf(router, lambda: ""), post(b"GET ") + post(b"abcd"))
    assert [each[3] for each in told(again)] == [b"GET ", b"abcd"]


def test_an_unknown_request_behind_known_ones_is_read(router: Router) -> None:
    read(RequestReader(router, lambda: ""), PING)
    reader = read(RequestReader(router, lambda: ""), PING * 2 + post(b"abc") + PING)
    assert [each[3] for each in told(reader)] == [b"", b"", b"abc", b""]


@pytest.mark.parametrize("sent", [EXPECTING, WITH_CHUNKS, LAST])
def test_what_is_no_plain_request_is_not_learnt(router: Router, sent: bytes) -> None:
    for _ in range(2):
        reader = read(RequestReader(router, lambda: ""), sent)
        assert not any(router.known.find(sent[:end]) for end in range(len(sent) + 1))
        assert len(reader.events) == (2 if sent is EXPECTING else 1)
        assert reader.ended == (sent is LAST)


def test_a_refusal_is_not_learnt(router: Router) -> None:
    sent = post(bytes(LIMIT + 1))
    for _ in range(2):
        reader = read(RequestReader(router, lambda: ""), sent)
        assert reader.ended
        assert router.known.find(sent[: -LIMIT - 1]) is None


@given(
    st.lists(
        st.sampled_from([PING, WITH_CHUNKS, post(b"abc"), post(b"\r\n\r\n"), UPGRADED]),
        max_size=8,
    ),
    st.integers(1, 80),
)
def test_a_reader_that_knows_reads_the_same(sent: list[bytes], size: int) -> None:
    data = b"".join(sent)
    router = new_router()
    for each in {*sent}:
        read(RequestReader(router, lambda: ""), each)
    fresh = read(RequestReader(new_router(), lambda: ""), data, size)
    knowing = read(RequestReader(router, lambda: ""), data, size)
    assert told(knowing) == told(fresh)
    assert (knowing.unfinished, knowing.ended) == (fresh.unfinished, fresh.ended)


def routed(router: Router) -> Any:
    """The request and its route."""
    return read(RequestReader(router, lambda: ""), PING).events[0]


def test_a_new_route_is_not_overlooked() -> None:
    router = Router()
    _, before = routed(router)
    router.add("GET", "/ping", lambda request: Response())
    _, after = routed(router)
    assert before.handler(None).status == 404
    assert after.handler(None).status == 200


def known(head: Head, size: int) -> Known:
    return Known(head, Route(lambda request: Response(), 0, Response()), "", size)


def test_long_heads_are_not_kept() -> None:
    heads = KnownHeads()
    for spare in (0, 1):
        filling = "x" * (LONGEST - len(post(b"", "X: ")) + spare)
        raw = post(b"", f"X: {filling}")
        assert len(raw) == LONGEST + spare
        heads.learn(raw, known(parse_head(raw), 0))
        assert (heads.find(raw) is None) == bool(spare)


def test_the_number_of_heads_is_bounded() -> None:
    heads = KnownHeads()
    raws = [b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(MOST + 1)]
    for raw in raws:
        heads.learn(raw, known(parse_head(raw), 0))
        assert heads.find(raw) is not None
    assert sum(heads.find(raw) is not None for raw in raws) <= MOST


def test_what_is_more_than_a_head_and_its_body_is_not_learnt() -> None:
    heads = KnownHeads()
    heads.learn(b"\r\n\r\n" + PING, known(parse_head(PING), 0))
    assert heads.find(b"\r\n\r\n" + PING) is None
    assert heads.find(PING) is None


def test_requests_share_their_head_but_not_their_client(router: Router) -> None:
    first, second = (read(RequestReader(router, lambda: "c"), PING).events[0] for _ in range(2))
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert isinstance(first[0], Request)
    assert first[0] is not second[0]
    assert first[0].head is second[0].head

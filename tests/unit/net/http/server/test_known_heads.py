"""Heads that are known, and what a reader makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.http.server.head import Head
from penstock.net.http.server.known_heads import LONGEST, MOST, Known, KnownHeads
from penstock.net.http.server.reader import RequestReader
from penstock.net.http.server.route import Route
from penstock.net.http.server.service import Request, Response, Router
from tests.http_heads import parse_head

LIMIT = 1000
GET = b"GET /ping?a=b HTTP/1.1\r\nHost: h\r\n\r\n"
EXPECTING = b"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
UPGRADE = b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
LAST = b"GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def post(body: bytes, more: str = "") -> bytes:
    head = f"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@pytest.fixture
def router() -> Router:
    return new_router()


def new_router() -> Router:
    router = Router()
    router.add("POST", "/echo", lambda request: Response(), max_body=LIMIT)
    router.add("GET", "/ping", lambda request: Response())
    return router


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


@pytest.mark.parametrize("sent", [GET, UPGRADE, post(b""), post(b"abc"), b"\r\n" + GET])
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
    read(RequestReader(router, lambda: ""), GET)
    reader = read(RequestReader(router, lambda: ""), GET * 2 + post(b"abc") + GET)
    assert [each[3] for each in told(reader)] == [b"", b"", b"abc", b""]


@pytest.mark.parametrize("sent", [EXPECTING, CHUNKED, LAST])
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
    st.lists(st.sampled_from([GET, CHUNKED, post(b"abc"), post(b"\r\n\r\n"), UPGRADE]), max_size=8),
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
    return read(RequestReader(router, lambda: ""), GET).events[0]


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
        filling = "x" * (LONGEST - len(post(b"", "X: \r\n")) + spare)
        raw = post(b"", f"X: {filling}\r\n")
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
    heads.learn(b"\r\n\r\n" + GET, known(parse_head(GET), 0))
    assert heads.find(b"\r\n\r\n" + GET) is None
    assert heads.find(GET) is None


def test_requests_share_their_head_but_not_their_client(router: Router) -> None:
    first, second = (read(RequestReader(router, lambda: "c"), GET).events[0] for _ in range(2))
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert isinstance(first[0], Request)
    assert first[0] is not second[0]
    assert first[0].head is second[0].head

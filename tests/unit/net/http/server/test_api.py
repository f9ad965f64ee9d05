from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.net.http.server.api import (
    EMPTY,
    ApiError,
    ApiRouter,
    Query,
    all_values,
    error_response,
    json_response,
    plain_response,
    text_response,
)
from penstock.net.http.server.service import Later, Request, Response
from tests.http_heads import parse_head

NSQ = ("X-Nsq-Content-Type", "nsq; version=1.0")
JSON = ("Content-Type", "application/json; charset=utf-8")
TEXT = "text/plain; charset=utf-8"


def test_responses() -> None:
    found = json_response({"a": [1, "<"]}, 201)
    assert (found.status, found.body, found.headers) == (201, b'{"a":[1,"\\u003c"]}', (JSON, NSQ))
    found = text_response("OK")
    assert (found.body, found.content_type, found.headers) == (b"OK", TEXT, (NSQ,))
    assert (EMPTY.body, EMPTY.content_type, EMPTY.headers) == (b"", None, (NSQ,))
    found = plain_response("NOK", 500)
    assert (found.status, found.content_type, found.headers) == (500, TEXT, ())
    found = error_response(404, "NOT_FOUND")
    assert (found.status, found.body) == (404, b'{"message":"NOT_FOUND"}')
    assert error_response(404, "NOT_FOUND") is found


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        (b"", "topic", None),
        (b"topic", "topic", ""),
        (b"topic=", "topic", ""),
        (b"topic=a&topic=b", "topic", "a"),
        (b"&&topic=a+b%20c%26", "topic", "a b c&"),
        (b"x=y=z", "x", "y=z"),
        (b"to%70ic=t%23ephemeral", "topic", "t#ephemeral"),
        (b"topic=" + b"a" * 1000, "topic", "a" * 1000),
        (b"topic=%ff", "topic", "\udcff"),
    ],
)
def test_query(raw: bytes, name: str, value: str | None) -> None:
    assert Query.parse(raw).get(name) == value


@pytest.mark.parametrize("raw", [b"topic=%zz", b"%zz", b"topic=a;b", b"a=%", b"a=%4"])
def test_query_refused(raw: bytes) -> None:
    with pytest.raises(ApiError, match=r"^INVALID_REQUEST$"):
        Query.parse(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "MISSING_ARG_TOPIC"),
        (b"channel=c", "MISSING_ARG_TOPIC"),
        (b"topic=", "INVALID_ARG_TOPIC"),
        (b"topic=a!&channel=b!", "INVALID_ARG_TOPIC"),
        (b"topic=a", "MISSING_ARG_CHANNEL"),
        (b"topic=a&channel=b!", "INVALID_ARG_CHANNEL"),
    ],
)
def test_topic_and_channel_refused(raw: bytes, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        Query.parse(raw).topic_and_channel()
    assert (caught.value.status, caught.value.code) == (400, code)


def test_a_repeated_parameter() -> None:
    raw = b"topic=b&x=1&topic=a%20c&topic=&topic=b"
    assert all_values(raw, "topic") == ["b", "a c", "", "b"]
    assert all_values(raw, "y") == []
    assert Query.parse(raw).get("topic") == "b"
    with pytest.raises(ApiError, match="INVALID_REQUEST"):
        all_values(b"topic=a;topic=b", "topic")


def test_topic_and_channel() -> None:
    query = Query.parse(b"topic=a&channel=b%23ephemeral")
    assert query.topic_and_channel() == ("a", "b#ephemeral")
    assert query.topic() == "a"
    with pytest.raises(ApiError, match=r"^INVALID_TOPIC$"):
        Query.parse(b"topic=!").topic("INVALID_TOPIC")


async def answer(result: Any, method: str = "GET") -> Response:
    """What a V1 handler that returns (or raises) `result` makes of a request."""

    def handler(request: Request) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    router = ApiRouter()
    router.v1("GET", "/x", handler, max_body=5, too_big="MSG_TOO_BIG")
    route, _ = router.resolve(method, "/x", b"")
    request = Request(parse_head(b"GET /x HTTP/1.0\r\n\r\n"), "", b"", str)
    found = route.handler(request)
    if isinstance(found, Response):
        return found
    assert not isinstance(found, Later)
    return await found


async def later(result: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(result, Exception):
        raise result
    return result


@pytest.mark.parametrize(
    ("result", "status", "body"),
    [
        (None, 200, b""),
        ("OK", 200, b"OK"),
        (b"OK", 200, b"OK"),
        ({"a": 1}, 200, b'{"a":1}'),
        ([], 200, b"[]"),
        (5, 200, b"5"),
        (text_response("x", 201), 201, b"x"),
        (ApiError(404, "TOPIC_NOT_FOUND"), 404, b'{"message":"TOPIC_NOT_FOUND"}'),
        (ApiError(400, "TOO_MANY", limit=5), 400, b'{"message":"TOO_MANY","limit":5}'),
    ],
)
async def test_v1(result: Any, status: int, body: bytes) -> None:
    for given in (result, later(result)):
        found = await answer(given)
        assert (found.status, found.body) == (status, body)
        assert NSQ in found.headers


async def test_pages() -> None:
    found = await answer(None, "POST")
    assert (found.status, found.body) == (405, b'{"message":"METHOD_NOT_ALLOWED"}')
    assert ("Allow", "GET, OPTIONS") in found.headers
    router = ApiRouter()
    router.v1("POST", "/pub", lambda request: None, max_body=5, too_big="MSG_TOO_BIG")
    assert router.resolve("POST", "/pub", b"")[0].too_large.body == b'{"message":"MSG_TOO_BIG"}'
    assert router.pages.not_found().body == b'{"message":"NOT_FOUND"}'
    assert router.pages.internal_error().body == b'{"message":"INTERNAL_ERROR"}'
    assert router.pages.too_large().status == 413

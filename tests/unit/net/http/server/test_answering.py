"""Routes, what handlers answer, now or later, and how it is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.net.http.fields import is_name
from penstock.net.http.server.deferred_response import DeferredResponse, deferred_response_of
from penstock.net.http.server.head import Head
from penstock.net.http.server.message import SMALL, DateLine, Request, Response, encode
from penstock.net.http.server.router import Router
from penstock.net.http.server.v1_api import (
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
from penstock.testing.clock import FakeClock
from tests.http_heads import parse_head


@pytest.fixture
def router() -> Router:
    router = Router()
    for method, path in [
        ("GET", "/stats"),
        ("POST", "/topic/create"),
        ("GET", "/config/:opt"),
        ("PUT", "/config/:opt"),
        ("GET", "/debug/pprof/"),
    ]:
        router.add(method, path, lambda request: Response(200, request.param.encode()))
    return router


def routed(router: Router, method: str, path: str, query: bytes = b"") -> Response:
    route, param = router.resolve(method, path, query)
    head = parse_head(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    response = route.handler(Request(head, param, b"", str))
    assert isinstance(response, Response)
    return response


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/stats", 200, None),
        ("PUT", "/config/x", 200, None),
        ("GET", "/nope", 404, None),
        ("GET", "/", 404, None),
        ("GET", "/config/", 404, None),
        ("GET", "/config/a/b", 404, None),
        ("GET", "*", 404, None),
        ("POST", "/stats", 405, "GET, OPTIONS"),
        ("HEAD", "/stats", 405, "GET, OPTIONS"),
        ("GET", "/topic/create", 405, "OPTIONS, POST"),
        ("POST", "/config/x", 405, "GET, OPTIONS, PUT"),
        ("OPTIONS", "/config/x", 200, "GET, OPTIONS, PUT"),
        ("OPTIONS", "*", 200, None),
        ("OPTIONS", "/nope", 404, None),
        ("OPTIONS", "/stats/", 404, None),
        ("HEAD", "/stats/", 404, None),
        ("GET", "/topic/create/", 404, None),
    ],
)
def test_routes(router: Router, method: str, path: str, status: int, allow: str | None) -> None:
    response = routed(router, method, path)
    assert response.status == status
    assert dict(response.headers).get("Allow") == allow
    assert response.body == b"x" or method != "PUT"


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/stats/", "/stats"),
        ("/STATS", "/stats"),
        ("//stats", "/stats"),
        ("/./stats", "/stats"),
        ("/topic/../stats", "/stats"),
        ("/Config/MixedCase", "/config/MixedCase"),
        ("/config/x/", "/config/x"),
        ("/debug/pprof", "/debug/pprof/"),
        ("/DEBUG/pprof/", "/debug/pprof/"),
        ("/CONFIG/a\r\nSet-Cookie: b", "/config/a%0D%0ASet-Cookie:%20b"),
    ],
)
def test_redirects(router: Router, path: str, location: str) -> None:
    response = routed(router, "GET", path, b"a=b&c")
    assert response.status == 301
    assert dict(response.headers)["Location"] == location + "?a=b&c"
    link = f'<a href="{location}?a=b&amp;c">Moved Permanently</a>.\n\n'
    assert response.body == link.encode()


def test_redirect_of_a_post(router: Router) -> None:
    response = routed(router, "POST", "/topic/create/", b"topic=x")
    assert (response.status, response.body) == (307, b"")
    assert response.headers == (("Location", "/topic/create?topic=x"),)


def test_limits_and_quiet() -> None:
    router = Router()
    refusal = Response(413)
    router.add("POST", "/a", lambda r: Response(), max_body=5, too_large=refusal, quiet=True)
    route, _ = router.resolve("POST", "/a", b"")
    assert (route.max_body, route.too_large, route.quiet) == (5, refusal, True)
    assert router.resolve("GET", "/nope", b"")[0].quiet is False
    assert router.resolve("POST", "/a/", b"")[0].quiet is True


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/api/topics", b"all"),
        ("/api/topics/t", b"one t"),
        ("/api/topics/t/c", b"two t/c"),
        ("/API/Topics/t/C", 301),
        ("/api/topics/t/c/", 301),
        ("/api/topics//c", 301),
        ("/api/topics/t/c/x", 404),
        ("/t/c", 404),
        ("//", 404),
    ],
)
def test_paths_with_two_parameters(path: str, answered: bytes | int) -> None:
    router = Router()
    for route, word in (("", b"all"), ("/:topic", b"one "), ("/:topic/:channel", b"two ")):
        router.add(
            "GET",
            f"/api/topics{route}",
            lambda request, word=word: Response(200, word + request.param.encode()),
        )
    response = routed(router, "GET", path)
    assert answered in (response.status, response.body)


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
    assert not isinstance(found, DeferredResponse)
    return await found


async def given_later(result: Any) -> Any:
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
    for given in (result, given_later(result)):
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


def test_later() -> None:
    calls = []
    later = DeferredResponse()
    later.when_ready(lambda: calls.append(1))
    assert calls == []
    response = Response()
    later.complete(response)
    assert (calls, later.response) == ([1], response)
    later.when_ready(lambda: calls.append(2))
    assert calls == [1, 2], "at once: it is there"
    with pytest.raises(RuntimeError):
        later.complete(response)


def test_whoever_works_on_it_hears_that_nobody_waits() -> None:
    heard = []
    later = DeferredResponse()
    later.abandon()  # nobody cares
    later.abandoned = lambda: heard.append(1)
    later.abandon()
    assert heard == [1]
    later.complete(Response())
    later.abandon()
    assert heard == [1], "it is answered"


OK = Response()


def failed(error: BaseException) -> Response:
    return Response(500, repr(error).encode())


async def coroutine(error: Exception | None = None) -> Response:
    await asyncio.sleep(0)
    if error is not None:
        raise error
    return OK


async def settled(answer: object) -> Response:
    """What `later_of` makes of a handler's answer in the end."""
    later = deferred_response_of(answer, failed)
    done = asyncio.Event()
    later.when_ready(done.set)
    await asyncio.wait_for(done.wait(), 30)
    assert later.response is not None
    return later.response


async def test_what_is_there_needs_no_waiting() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(OK)
    given = DeferredResponse()
    assert deferred_response_of(given, failed) is given
    assert deferred_response_of(OK, failed).response is OK
    assert deferred_response_of(future, failed).response is OK


async def test_awaitables() -> None:
    assert await settled(coroutine()) is OK
    assert await settled(asyncio.ensure_future(coroutine())) is OK


async def test_failures() -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    assert (await settled(cancelled)).body == b"CancelledError()"
    assert (await settled(coroutine(KeyError(1)))).body == b"KeyError(1)"
    assert (await settled(5)).body == b"TypeError('a handler returned 5')"


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


# --- Names of header fields ----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["X-Name", "x", "a1!#$%&'*+.^_`|~-"])
def test_a_name(text: str) -> None:
    assert is_name(text)
    for other in "", f"{text} b", f"{text}:", "ä", f"{text}\n", f"({text})":
        assert not is_name(other)

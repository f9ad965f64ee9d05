"""What the daemons' HTTP ports hear, and what the client of the log endpoints is told."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast
from unittest import mock
from urllib.parse import parse_qsl

from penstock.log_api.errors import NodeError
from penstock.log_api.log_client import LogClient
from penstock.net.http.client import keep_alive as http_kept
from penstock.net.http.server.message import Bare, DateLine, encode
from penstock.net.http.server.reader import MAX_HEAD, RequestReader
from penstock.net.http.server.service import Request, Response, text
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.storage.batch import CorruptBatchError
from penstock.testing.clock import FakeClock
from tools.fuzz.streams import same_however_cut

from . import Target

MAX_BODY = 256
_DATE = DateLine(FakeClock())


def _router() -> ApiRouter:
    router = ApiRouter()
    router.add("GET", "/ping", lambda request: text("OK"))
    router.v1("POST", "/pub", lambda request: "OK", max_body=MAX_BODY)
    router.v1("PUT", "/config/:opt", lambda request: request.param, max_body=MAX_BODY)
    return router


ROUTER = _router()


def requests(data: bytes) -> None:
    """Requests of one connection, and the bytes of the answers to them."""
    same_however_cut(data, _requests)


def _requests(pieces: Iterator[bytes]) -> list[Any]:
    reader = RequestReader(ROUTER, lambda: "127.0.0.1:1")
    found: list[Any] = []
    for piece in pieces:
        reader.feed(piece)
        found += map(_plain, reader.events)
        reader.events.clear()
        assert sum(map(len, reader._parts)) <= MAX_BODY
        assert not reader.unfinished or reader._unread <= MAX_HEAD
    reader.end()
    found += map(_plain, reader.events)
    reader.close()
    return found


def _plain(event: Any) -> Any:
    if isinstance(event, Bare):
        # In which words garbage is refused may depend on how much of it has come.
        return "refused" if event.status >= 400 else event.raw
    request, route = cast("tuple[Request, Any]", event)
    assert len(request.body) <= MAX_BODY
    answer = route.handler(request)
    assert isinstance(answer, Response)
    assert answer.status < 500 or not request.head.keep_alive  # only for a body cut short
    sent = b"".join(encode(answer, request.head, _DATE()))
    assert sent.startswith(b"HTTP/1.")
    return (request.method, request.path, request.raw_path, request.query, request.body, sent)


def queries(data: bytes) -> None:
    """The query of a URL: what `urllib` reads, or a refusal."""
    try:
        query = Query.parse(data)
    except ApiError as error:
        assert str(error) == "INVALID_REQUEST"
        return
    text = data.decode("latin-1")
    expected: dict[str, str] = {}
    for pair in parse_qsl(text, keep_blank_values=True, encoding="latin-1"):
        name, value = (part.encode("latin-1").decode("utf-8", "surrogateescape") for part in pair)
        expected.setdefault(name, value)
    for name, value in expected.items():
        assert query.get(name) == value
    for ask in (query.topic, query.topic_and_channel):
        try:
            ask()
        except ApiError as error:
            assert str(error).startswith(("MISSING_ARG_", "INVALID_ARG_"))


class _Socket:
    """A peer that has sent all it will ever send."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)

    def sendall(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def log_answers(data: bytes) -> None:
    """Whatever a node answers, the log's client returns it or raises one of its own errors."""
    client = LogClient("127.0.0.1:1")
    for ask in (
        client.topics,
        lambda: client.offsets("t"),
        lambda: client.offsets_of(["t", "u"]),
        lambda: list(client.fetch("t", 5).batches()),
        lambda: client.offset_at("t", 5),
        lambda: client.commit("t", "g", {0: 1}),
        lambda: client.commit_all("g", {"t": {0: 1}, "u": {}}, owner="o"),
        lambda: client.delete_groups("g", ["t", "u"]),
    ):
        client._daemon._connection._connection.sock = cast(Any, _Socket(data))
        try:
            with mock.patch.object(http_kept, "_WAIT_S_MAX", 0):
                ask()
        except (NodeError, CorruptBatchError):
            pass
        finally:
            client.close()


def _request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: h", *headers, b"", body])


def _answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


_CHUNKED = b"Transfer-Encoding: chunked"
_REQUESTS = [
    _request(b"GET /ping HTTP/1.1") + _request(b"GET /ping?a=b HTTP/1.0"),
    _request(b"POST /pub?topic=t HTTP/1.1", b"Content-Length: 5", body=b"hello") * 2,
    _request(b"POST /pub?topic=t HTTP/1.1", _CHUNKED,
             body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n"),
    _request(b"PUT /config/a%2fb HTTP/1.1", b"Expect: 100-continue", b"Content-Length: 1",
             body=b"x"),
    _request(b"GET //ping/ HTTP/1.1", b"Connection: close"),
    _request(b"GET http://h/ping HTTP/1.1", b"Upgrade: h2c", b"Connection: Upgrade")
    + _request(b"GET /ping HTTP/1.1"),
    _request(b"POST /pub HTTP/1.1", b"Content-Length: 99999"),
    b"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\nHEAD /%e2%28 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"not http at all\r\n\r\n",
    b"GET / HTTP/2.0\r\n\r\n",
    b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
]  # fmt: skip
_HTTP_WORDS = [b"\r\n", b"\r\n\r\n", b"Content-Length: ", _CHUNKED, b"0\r\n\r\n", b"HTTP/1.1",
               b"HTTP/0.9", b"Expect: x\r\n", b"Upgrade: x\r\n", b"%zz", b"%00", b"%ff", b"//",
               b"\0", b"GET ", b"Host: h\r\n", b"Connection: Upgrade\r\n"]  # fmt: skip
_OFFSETS = b'{"node":"n","topic":"t","queues":[{"queue":0,"start":0,"end":9,"bytes":3}],"groups":'

TARGETS = {
    "http_requests": Target(requests, _REQUESTS, _HTTP_WORDS),
    "http_queries": Target(
        queries,
        [b"topic=t&channel=c", b"topic=%74+x&topic=2", b"a=%zz", b"=&&x", b"topic=%ff;"],
        [b"%", b"+", b"&", b"=", b";", b"topic=", b"channel="],
    ),
    "log_answers": Target(
        log_answers,
        [
            _answer(_OFFSETS + b'{"g":{"0":5}}}'),
            _answer(b'{"offset":7,"topics":[{"topic_name":"t"}]}'),
            _answer(b"", b"X-Penstock-Start: 0", b"X-Penstock-End: 5"),
            _answer(b'{"message":"TOPIC_NOT_FOUND"}', status=b"404 Not Found"),
            _answer(b'{"node":"n","topics":[' + _OFFSETS + b'{}},{"topic":"u","message":"X"}]}'),
            _answer(b'{"topics":{"t":{},"u":{"message":"GROUP_IN_USE","owner":"o","seconds":1}}}'),
            _answer(b'{"message":"GROUP_IN_USE","seconds":1e9}', status=b"409 Conflict"),
            _answer(b'{"message":"TLS_REQUIRED","https_port":4152}', status=b"403 Forbidden"),
            _answer(b'{"start":1,"end":2}', status=b"416 Range"),
            b"HTTP/1.1 200 OK\r\n" + _CHUNKED + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ],
        [b"null", b"[]", b"{}", b'"', b"-1", b"X-Penstock-End: x\r\n", b"\r\n", b"9" * 20],
    ),
}

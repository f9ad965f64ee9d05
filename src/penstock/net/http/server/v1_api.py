"""The HTTP API of every daemon: NSQ's V1 envelope, its error codes and Go's reading of queries.

A V1 handler returns None (empty answer), a string (sent as it is), anything else that JSON can say,
a ``Response``, a ``DeferredResponse``, or an awaitable of these; or it raises ``ApiError``.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from penstock.core.errors import PenstockError
from penstock.core.gojson import dumps
from penstock.core.names import is_valid_name
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.route import Plain
from penstock.net.http.server.service import (
    Begin,
    DeferredResponse,
    ErrorPages,
    Request,
    Response,
    Router,
)

# Go writes header names in its canonical spelling, so X-NSQ-… arrives as X-Nsq-….
NSQ_HEADER = ("X-Nsq-Content-Type", "nsq; version=1.0")
_JSON_HEADERS = (("Content-Type", "application/json; charset=utf-8"), NSQ_HEADER)
_TEXT = "text/plain; charset=utf-8"
_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")

_KEPT_QUERY_SIZE = 512

V1Handler = Callable[[Request], Any]


class ApiError(PenstockError):
    """An answer that is an error: an HTTP status and a code in NSQ's form, perhaps with details."""

    def __init__(self, status: int, code: str, **details: Any) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.details = details

    @property
    def content(self) -> dict[str, Any]:
        """The answer's JSON."""
        return {"message": self.code, **self.details}


def json_response(value: Any, status: int = 200) -> Response:
    """``value`` as JSON in the V1 envelope."""
    return Response(status, dumps(value), headers=_JSON_HEADERS)


def text_response(body: str | bytes, status: int = 200) -> Response:
    """A string in the V1 envelope, such as the ``OK`` of /pub; an empty one has no content type."""
    raw = body if isinstance(body, bytes) else _encoded(body)
    # Go sniffs a string as text/plain, and gives an empty body no type.
    return Response(status, raw, _TEXT if raw else None, (NSQ_HEADER,))


def plain_response(body: str, status: int = 200) -> Response:
    """A string outside the envelope: /ping and a few of /debug."""
    return Response(status, _encoded(body), _TEXT)


def _encoded(body: str) -> bytes:
    # What clients sent that was not UTF-8 goes back as it came.
    return body.encode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=256)
def error_response(status: int, code: str) -> Response:
    """``{"message":"<code>"}``; made once for each pair."""
    return json_response({"message": code}, status)


def _refusal(error: ApiError) -> Response:
    if error.details:
        return json_response(error.content, error.status)
    return error_response(error.status, error.code)


EMPTY = text_response("")
"""The answer of what succeeded with nothing to tell."""


class ApiPages(ErrorPages):
    """The server's own answers in NSQ's words."""

    def not_found(self) -> Response:
        return error_response(404, "NOT_FOUND")

    def method_not_allowed(self, allow: str) -> Response:
        response = json_response({"message": "METHOD_NOT_ALLOWED"}, 405)
        response.headers = (*response.headers, ("Allow", allow))
        return response

    def internal_error(self) -> Response:
        return error_response(500, "INTERNAL_ERROR")

    def too_large(self) -> Response:
        return error_response(413, "BODY_TOO_BIG")

    def busy(self, why: str) -> Response:
        return json_response({"message": f"BUSY: {why}"}, 503)

    def forbidden(self, why: str) -> Response:
        return json_response({"message": f"FORBIDDEN: {why}"}, 403)


class ApiRouter(Router):
    """Routes to V1 handlers."""

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__(ApiPages(), guard)

    def v1(
        self,
        method: str,
        path: str,
        handler: V1Handler,
        *,
        max_body: int | None = None,
        too_big: str = "BODY_TOO_BIG",
        quiet: bool = False,
        begin: Begin | None = None,
        plain: Plain | None = None,
    ) -> None:
        """Route to a V1 handler; a body over ``max_body`` bytes is answered 413 with
        ``too_big``.
        """

        def answer(request: Request) -> Response | DeferredResponse | Awaitable[Response]:
            try:
                result = handler(request)
            except ApiError as error:
                return _refusal(error)
            if isinstance(result, (DeferredResponse, Response)):
                return result
            return answered(result) if inspect.isawaitable(result) else _enveloped(result)

        self.add(
            method,
            path,
            answer,
            max_body=max_body,
            too_large=error_response(413, too_big),
            quiet=quiet,
            begin=begin,
            plain=plain,
        )


async def answered(result: Awaitable[Any]) -> Response:
    """The answer of a V1 handler that is awaited."""
    try:
        return _enveloped(await result)
    except ApiError as error:
        return _refusal(error)


def _enveloped(result: Any) -> Response:
    if isinstance(result, Response):
        return result
    if result is None:
        return EMPTY
    return text_response(result) if isinstance(result, str | bytes) else json_response(result)


class Query:
    """The parameters after ``?``; of a repeated one the first value counts."""

    __slots__ = ("get",)

    def __init__(self, values: dict[str, str]) -> None:
        self.get = values.get
        """A parameter's value, perhaps empty; None when it is absent."""

    @staticmethod
    def parse(raw: bytes) -> Query:
        """Read a query as Go's ``url.ParseQuery``; ApiError INVALID_REQUEST when that would
        fail.
        """
        return _parse_known(raw) if len(raw) <= _KEPT_QUERY_SIZE else _parse(raw)

    def required(self, name: str) -> str:
        """A parameter that must be present, if only empty; ApiError MISSING_ARG_<NAME>."""
        # To nsqd "topic=" is present: its empty name is invalid, not missing.
        value = self.get(name)
        if value is None:
            raise ApiError(400, f"MISSING_ARG_{name.upper()}")
        return value

    def topic(self, invalid: str = "INVALID_ARG_TOPIC") -> str:
        """The valid name in ``topic``; ApiError MISSING_ARG_TOPIC or ``invalid``."""
        name = self.required("topic")
        if not is_valid_name(name):
            raise ApiError(400, invalid)
        return name

    def topic_and_channel(self) -> tuple[str, str]:
        """The valid names in ``topic`` and ``channel``; ApiError in NSQ's order of checks."""
        topic = self.topic()
        channel = self.required("channel")
        if not is_valid_name(channel):
            raise ApiError(400, "INVALID_ARG_CHANNEL")
        return topic, channel


def _parse(raw: bytes) -> Query:
    # Of equal names Go takes the first value: reversed, it is entered last.
    return Query(dict(reversed(_pairs(raw))))


# Clients repeat the same few queries; an error is not kept, only a Query.
_parse_known = functools.lru_cache(maxsize=1024)(_parse)


def all_values(raw: bytes, name: str) -> list[str]:
    """The values of a parameter that may be repeated, in order; ApiError INVALID_REQUEST."""
    return [value for each, value in _pairs(raw) if each == name]


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    # Go refuses the whole query for one bad escape, or for a semicolon anywhere.
    if b";" in raw or _BAD_ESCAPE.search(raw):
        _refuse()
    parts = [pair.partition(b"=") for pair in raw.split(b"&") if pair]
    return [(_unescape(name), _unescape(value)) for name, _, value in parts]


def _unescape(part: bytes) -> str:
    return unquote_to_bytes(part.replace(b"+", b" ")).decode("utf-8", "surrogateescape")


def _refuse() -> NoReturn:
    raise ApiError(400, "INVALID_REQUEST")

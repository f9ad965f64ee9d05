"""Graphite behind nsqadmin: the rate of one series, and its pictures by proxy (NSQ spec 5.5)."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from penstock.admin.admin_options import AdminOptions
from penstock.admin.router import AdminRouter
from penstock.core.malformed import MALFORMED
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND
from penstock.net.http.client import once as http_client
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError, Query, plain_response

logger = logging.getLogger("penstock.nsqadmin")

NOT_KNOWN: Final = "N/A"
_ANSWER_MAX: Final = 16 << 20
_PASSED_ON: Final = (
    b"accept",
    b"accept-language",
    b"accept-encoding",
    b"cache-control",
    b"if-modified-since",
    b"if-none-match",
    b"user-agent",
)
_PASSED_BACK: Final = (
    "content-type",
    "content-encoding",
    "cache-control",
    "etag",
    "expires",
    "last-modified",
    "vary",
)


class _Series(msgspec.Struct):
    datapoints: list[list[float | None]] | None = None


class GraphiteApi:
    """/api/graphite, and /render with --proxy-graphite."""

    def __init__(self, options: AdminOptions) -> None:
        self._options = options
        self._interval_s = options.statsd_interval // SECOND

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/graphite", self._rate)
        if self._options.proxy_graphite:
            router.add("GET", "/render", self._render)

    async def _rate(self, request: Request) -> Any:
        query = Query.parse(request.query)
        if query.get("metric") != "rate":
            raise ApiError(400, "INVALID_ARG_METRIC")
        target = query.get("target")
        if target is None:
            raise ApiError(400, "INVALID_ARG_TARGET")
        # Go's query, its keys sorted (NSQ spec 5.5): the interval before the present one.
        asked = {
            "format": "json",
            "from": f"-{2 * self._options.statsd_interval // SECOND}sec",
            "target": target,
            "until": f"-{self._interval_s}sec",
        }
        return {"rate": self._shown(await self._series(urlencode(asked, errors="replace")))}

    async def _series(self, query: str) -> list[_Series] | None:
        url = f"{self._options.graphite_url}/render?{query}"
        logger.info("GRAPHITE: %s", without_secrets(url))
        try:
            answer = await self._get(url, {})
            if answer.status != 200:
                raise ValueError(f"got response {answer.status}")
            return msgspec.json.decode(answer.body, type=list[_Series] | None)
        except (http_client.HttpError, ValueError, *MALFORMED) as error:
            logger.error("graphite request failed - %s", error)
            raise ApiError(500, "INTERNAL_ERROR") from error

    def _shown(self, series: list[_Series] | None) -> str:
        points = series[0].datapoints if series else None
        value = points[0][0] if points and points[0] else None
        # Go's nsqadmin answers 500 where graphite has no data (NSQ spec 5.5).
        if value is None or value < 0 or not self._interval_s:
            return NOT_KNOWN
        return f"{value / self._interval_s:.2f}"

    async def _render(self, request: Request) -> Response:
        found = request.headers
        headers = {each.decode(): _text(found[each]) for each in _PASSED_ON if each in found}
        # As Go's proxy: the Host that was asked for goes on to graphite (NSQ spec 5.2).
        headers["Host"] = _text(found.get(b"host", b""))
        headers["X-Forwarded-For"] = request.remote.rpartition(":")[0].strip("[]")
        url = f"{self._options.graphite_url.rstrip('/')}/render"
        url += f"?{_text(request.query)}" if request.query else ""
        try:
            answer = await self._get(url, headers)
        except http_client.HttpError as error:
            logger.error("graphite request failed - %s", error)
            return plain_response("graphite cannot be reached\n", 502)
        kept = tuple(
            (name.title(), answer.headers[name]) for name in _PASSED_BACK if name in answer.headers
        )
        return Response(answer.status, answer.body, headers=kept)

    async def _get(self, url: str, headers: dict[str, str]) -> http_client.Answer:
        options = self._options
        return await http_client.request(
            "GET",
            url,
            options.request_s,
            headers=headers,
            connect_timeout=options.connect_s,
            max_body=_ANSWER_MAX,
        )


def _text(raw: bytes) -> str:
    return raw.decode("latin-1")

"""/api/history and /api/events: what charts are drawn of. Ours, not upstream's."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.history.history import FIGURES, History, Series
from penstock.admin.history.layout import LEVELS, RowFilter
from penstock.admin.history.prometheus import RANGES as LONGER
from penstock.admin.history.prometheus import Prometheus
from penstock.admin.history.row_numbers import Key
from penstock.admin.history.server_sent import Events
from penstock.admin.router import AdminRouter
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError, Query

HOUR, DAY = RANGES = ("1h", "24h")
"""The ranges that nsqadmin itself keeps."""
_NUMBERS_KEPT: Final = 3


class HistoryApi:
    """The two endpoints."""

    def __init__(
        self, history: History, events: Events, clock: Clock, prometheus: Prometheus | None = None
    ) -> None:
        self._history = history
        self._events = events
        self._clock = clock
        self._prometheus = prometheus

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/history", self._series)
        router.v1("GET", "/api/events", self._watch)

    async def _series(self, request: Request) -> Any:
        query = Query.parse(request.query)
        key = Key(*(query.get(name) or "" for name in Key._fields))
        span = query.get("range") or HOUR
        if self._prometheus is not None and span in LONGER:
            try:
                now = self._clock.wall_ns() / SECOND
                series: Series | None = await self._prometheus.series(key, span, now)
            except UpstreamError as error:
                raise ApiError(502, f"UPSTREAM_ERROR: {error}") from error
        elif span in RANGES:
            series = self._history.series(key, is_day=span == DAY)
        else:
            raise ApiError(400, "INVALID_ARG_RANGE")
        if series is None:
            raise ApiError(404, "HISTORY_NOT_FOUND")
        values = [[_shown(value) for value in each] for each in series.values]
        return {
            **key._asdict(),
            "times": [round(time, _NUMBERS_KEPT) for time in series.times],
            **dict(zip(FIGURES, values, strict=False)),
            "waiting": [_shown(value) for value in series.waiting],
            "partial": series.partial,
            "latencies": [
                {"quantile": quantile, "values": each}
                for quantile, each in zip(
                    self._history.quantiles, values[len(FIGURES) :], strict=False
                )
            ],
        }

    def _watch(self, request: Request) -> Response:
        query = Query.parse(request.query)
        row_filter = RowFilter(*(query.get(name) or "" for name in RowFilter._fields))
        if row_filter.level not in LEVELS:
            raise ApiError(400, "INVALID_ARG_LEVEL")
        stream = self._events.watch(row_filter)
        if stream is None:
            raise ApiError(503, "TOO_MANY_WATCHERS")
        return stream


def _shown(value: float) -> float | None:
    return None if value != value else round(value, _NUMBERS_KEPT)

"""A Prometheus's figures of a topic, channel, group or node, for longer than nsqadmin's own day.

Its metrics are those of nsqd (docs/metrics.md). Nodes are told apart by ``instance``, the address
of their HTTP port.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from penstock.admin.history.history import FIGURES, Series
from penstock.admin.history.row_numbers import Key
from penstock.admin.history.sample import GROUP_MARK
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import RefusedError, UnreachableError, UpstreamError
from penstock.core.malformed import MALFORMED

RANGES: Final = {"7d": 7 * 86_400, "30d": 30 * 86_400}
"""Seconds of the ranges that are asked of it."""
_RUNS: Final = "check that a Prometheus runs there"
_IS_ONE: Final = "give the address of a Prometheus, with its path if it has one"
_POINTS: Final = 336
_WINDOW_POINTS: Final = 1.5


class _Line(Struct):
    values: list[tuple[float, str]]


class _Data(Struct):
    result: list[_Line]


class _Answer(Struct):
    data: _Data


class Prometheus:
    """A Prometheus at a URL, which may have a path."""

    def __init__(self, http: HttpClient, url: str) -> None:
        scheme, _, rest = url.rstrip("/").partition("://")
        host, slash, path = rest.partition("/")
        self._http = http
        self._url = url
        self._address, self._path = f"{scheme}://{host}", slash + path

    async def series(self, key: Key, span: str, now: float) -> Series:
        """The figures of a key up to now. Raises UpstreamError, which names the Prometheus."""
        seconds = RANGES[span]
        step = seconds // _POINTS
        end = math.floor(now)
        times = [float(end - step * (_POINTS - 1 - point)) for point in range(_POINTS)]
        queries = _queries(key, int(step * _WINDOW_POINTS))
        asked = [self._ask(query, times[0], end, step) for query in queries.values()]
        found = dict(zip(queries, await asyncio.gather(*asked), strict=True))
        columns = {
            name: [points.get(round(time), math.nan) for time in times]
            for name, points in found.items()
        }
        nothing = [math.nan] * len(times)
        values = [columns.get(figure, nothing) for figure in FIGURES]
        waiting = columns.get("waiting", values[0])
        return Series(times, values, waiting, [0] * len(times))

    async def _ask(self, query: str, start: float, end: float, step: int) -> dict[int, float]:
        target = (
            f"{self._path}/api/v1/query_range?query={quote(query, safe='')}"
            f"&start={start:.0f}&end={end:.0f}&step={step}"
        )
        try:
            body = await self._http.get_bytes(self._address, target)
            lines = msgspec.json.decode(body, type=_Answer).data.result[:1]  # a sum is one, or none
            return {round(at): float(value) for line in lines for at, value in line.values}
        except UnreachableError as error:
            raise self._error(f"{error.reason.plain}{error.reason.remedy}", _RUNS) from error
        except RefusedError as error:
            raise self._error(str(error), _RUNS) from error
        except (*MALFORMED, ValueError) as error:
            raise self._error(f"the answer is not a Prometheus's ({error})", _IS_ONE) from error

    def _error(self, reason: str, remedy: str) -> UpstreamError:
        return UpstreamError(f"--prometheus-url {self._url}: {reason}; {remedy}")


def _queries(key: Key, window_s: int) -> dict[str, str]:
    """PromQL by the figure that it gives."""
    name, of_topic = key.channel, _labels(topic=key.topic, instance=key.node)
    if name.startswith(GROUP_MARK):
        of_group = _labels(topic=key.topic, group=name.removeprefix(GROUP_MARK), instance=key.node)
        lag = f"sum(nsqd_group_lag{of_group}) or sum(nsqd_log_group_lag{of_group})"
        return {"depth": lag, "out": f"sum(nsqd_group_rate{of_group})"}
    of_channel = _labels(topic=key.topic, channel=name, instance=key.node)

    def grown(metric: str, labels: str) -> str:
        return f"sum(rate({metric}{labels}[{window_s}s]))"

    counted = "channel" if name else "topic"
    of = of_channel if name else of_topic
    waiting = f"sum(nsqd_channel_depth{of_channel})"
    if not name:
        topics = f"sum(nsqd_topic_depth{of_topic})"
        waiting = f"{topics} + {waiting} or {topics}"  # the second without any channel
    return {
        "depth": f"sum(nsqd_{counted}_depth{of})",
        "waiting": waiting,
        "in": grown(f"nsqd_{counted}_messages_total", of),
        "out": grown("nsqd_channel_deliveries_total", of_channel),
        "in_flight": f"sum(nsqd_channel_in_flight{of_channel})",
        "requeues": grown("nsqd_channel_requeues_total", of_channel),
        "timeouts": grown("nsqd_channel_timeouts_total", of_channel),
    }


def _labels(**wanted: str) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in wanted.items() if value]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

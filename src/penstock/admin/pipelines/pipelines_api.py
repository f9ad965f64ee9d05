"""/api/pipelines: how Spark's pipelines are. Ours, not upstream's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from penstock.admin.read_api import answering, text_of
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Answers, Warnings, try_all
from penstock.cluster.upstream_errors import RefusedError
from penstock.log_api.pipeline_status import ReportedStatus
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

FIGURES: Final = ("read_per_s", "written_per_s", "lag", "batch_ms", "state_rows")
PIPELINES_MAX: Final = 500
HOUR_S: Final = 3600.0
_POINTS_MAX: Final = 720
_TREND_POINTS: Final = 60


class PipelineHistory:
    """``interval`` is the time between looks, in seconds."""

    def __init__(self, interval: float) -> None:
        self._points = min(max(int(HOUR_S / interval), 1), _POINTS_MAX)
        self._of: dict[str, deque[tuple[float | None, ...]]] = {}

    def take(self, time: float, pipelines: Iterable[Mapping[str, Any]]) -> None:
        """The pipelines as they are at this time, in unix seconds."""
        for each in pipelines:
            points = self._of.get(each["id"])
            if points is None:
                if len(self._of) >= PIPELINES_MAX:
                    continue
                points = self._of[each["id"]] = deque(maxlen=self._points)
            while points and _time(points) >= time:  # the clock was set back
                points.pop()
            points.append((time, *(_known(each, figure) for figure in FIGURES)))
        old = [id for id, points in self._of.items() if abs(_time(points) - time) > HOUR_S]
        for id in old:
            del self._of[id]

    def series(self, id: str) -> dict[str, list[float | None]]:
        """Times and, for each figure, its values, None where there was none; empty lists of a
        pipeline that is not known.
        """
        points = self._of.get(id, ())
        columns = list(zip(*points, strict=True)) or [()] * (1 + len(FIGURES))
        return dict(zip(("times", *FIGURES), map(list, columns), strict=True))

    def trend(self, id: str) -> list[float]:
        """The rows a second that it read, in at most 60 values."""
        points = [point[1] or 0.0 for point in self._of.get(id, ())]
        size = -(-len(points) // _TREND_POINTS) or 1
        some = (points[at : at + size] for at in range(0, len(points), size))
        return [round(sum(each) / len(each), 3) for each in some]


def _time(points: deque[tuple[float | None, ...]]) -> float:
    return points[-1][0] or 0.0


def _known(pipeline: Mapping[str, Any], figure: str) -> float | None:
    """A figure as it is now; a batch has taken no time before there was one."""
    value = pipeline[figure]
    is_early = figure == "batch_ms" and pipeline["batch"] < 0
    return None if is_early or value is None else float(value)


STARTING: Final = "starting"
"""The state of a pipeline that runs and has done no batch yet."""
SILENT: Final = "silent"
"""The state of a pipeline that reported last that it runs, long ago."""
SILENT_S: Final = 30.0


class Pipelines:
    """The pipelines that nodes know of; ``interval`` in seconds, 0: no past is kept."""

    def __init__(self, cluster: Cluster, interval: float) -> None:
        self._cluster = cluster
        self._past = PipelineHistory(interval) if interval else None

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/pipelines", answering(self._all))
        router.v1("GET", "/api/pipelines/:id", answering(self._one))

    async def look(self, time: float, addresses: Iterable[str]) -> None:
        """Add a point to the past of each pipeline; nodes that do not answer are left out."""
        if self._past is not None:
            found = await self._ask(addresses)
            self._past.take(time, whole_pipelines(found.answers))

    async def readers(self, addresses: Iterable[str]) -> dict[tuple[str, str], dict[str, Any]]:
        """The pipeline that reads a topic for a group: its id, name, state and age."""
        found = await self._ask(addresses)
        return {
            (topic, group): {key: each[key] for key in ("id", "name", "state", "age")}
            for each in whole_pipelines(found.answers)
            for topic, group in each["groups"]
        }

    async def _all(self, request: Request) -> Any:
        warnings = Warnings()
        pipelines = await self._now(warnings)
        for each in pipelines:
            del each["sql"]
            each["trend"] = self._past.trend(each["id"]) if self._past else []
        return {"pipelines": pipelines, "message": warnings.message}

    async def _one(self, request: Request) -> Any:
        id, warnings = text_of(request.param), Warnings()
        for each in await self._now(warnings):
            if each["id"] == id:
                history = self._past.series(id) if self._past else None
                return {**each, "history": history, "message": warnings.message}
        raise ApiError(404, "PIPELINE_NOT_FOUND")

    async def _now(self, warnings: Warnings) -> list[dict[str, Any]]:
        producers = await self._cluster.producers(warnings, with_topics=False)
        found = await self._ask(dict.fromkeys(each.http_address for each in producers))
        warnings.add(found.errors)
        return whole_pipelines(found.answers)

    async def _ask(self, addresses: Iterable[str]) -> Answers[str, NodePipelines]:
        async def ask(address: str) -> NodePipelines:
            try:
                return await self._cluster.http.get(address, "/pipelines", NodePipelines)
            except RefusedError as error:
                if error.status != 404:  # Go's nsqd has no such page
                    raise
                return NodePipelines()

        return await try_all(addresses, ask)


class NodePipelines(Struct):
    """The answer of a node at /pipelines."""

    pipelines: list[ReportedStatus] | None = None


def whole_pipelines(told: Iterable[tuple[str, NodePipelines]]) -> list[dict[str, Any]]:
    """The status of each pipeline over all nodes that know it, by name."""
    found: dict[str, list[tuple[str, ReportedStatus]]] = {}
    for node, answer in told:
        for status in answer.pipelines or ():
            found.setdefault(status.id, []).append((node, status))
    return sorted(map(_whole, found.values()), key=lambda each: (each["name"], each["id"]))


def _whole(parts: list[tuple[str, ReportedStatus]]) -> dict[str, Any]:
    """The newest status; lags of nodes add up, and the last error of any is the last. Before the
    first batch only nodes that have the pipeline's group know of a lag.
    """
    newest = min((status for _, status in parts), key=lambda status: status.age)
    failed = max((status for _, status in parts), key=lambda status: status.error_at)
    here = [status.lag for _, status in parts if status.lag_is_here]
    fields = structs.asdict(newest)
    del fields["lag_is_here"]
    return fields | {
        "state": _state_of(newest),
        "lag": sum(here) if here else newest.lag if newest.batch >= 0 else None,
        "restarts": max(status.restarts for _, status in parts),
        "error": failed.error,
        "error_at": failed.error_at,
        "nodes": sorted(node for node, _ in parts),
    }


def _state_of(status: ReportedStatus) -> str:
    if status.state != "running":
        return status.state
    return SILENT if status.age > SILENT_S else STARTING if status.batch < 0 else status.state

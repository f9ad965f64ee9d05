"""The last hour of each pipeline, in memory: a point for each look."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

FIGURES: Final = ("read_per_s", "written_per_s", "lag", "batch_ms", "state_rows")
PIPELINES_MAX: Final = 500
HOUR_S: Final = 3600.0
_POINTS_MAX: Final = 720
_TREND_POINTS: Final = 60


class Past:
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

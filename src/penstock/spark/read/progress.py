"""The progress of a running query in the terms of this source: rows, positions and lag."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark.offsets import Offsets, Position, from_checkpoint

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One finished micro-batch; ``lag`` counts the messages after it when it was planned.

    ``written`` and ``bad`` are rows that went to the sink and that did not parse, where the query
    counts them (``penstock.spark.pipelines``); state is what windows and joins remember.
    """

    batch: int
    rows: int
    duration_ms: int
    lag: int
    end: Offsets
    written: int = 0
    bad: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    @property
    def rows_per_s(self) -> float:
        return self.rows * 1000 / max(1, self.duration_ms)


class Follower:
    """A follower of a query: each finished batch is given out once; to be called often."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last = -1

    def finished(self) -> list[BatchDone]:
        """The batches with rows that finished since the last call."""
        done = [batch_done(each) for each in fresh(self._query.recentProgress, self._last)]
        if done:
            self._last = done[-1].batch
        return done


def fresh(recent: Iterable[Any], after: int) -> list[Any]:
    """The reports of batches after this one that brought rows, or gave some from their state."""
    return [
        each
        for each in recent
        if each["batchId"] > after and (rows_read(each) or observed(each, "output", "rows"))
    ]


def batch_done(report: Any) -> BatchDone:
    """A query's progress report (``StreamingQueryProgress``) in our terms."""
    source = report["sources"][0]
    end = position(source["endOffset"]).offsets
    latest = position(source["latestOffset"]).offsets or end
    return BatchDone(
        batch=report["batchId"],
        rows=rows_read(report),
        duration_ms=report["batchDuration"],
        lag=sum(max(0, latest[place] - offset) for place, offset in end.items() if place in latest),
        end=end,
        written=observed(report, "output", "rows"),
        bad=observed(report, "input", "bad"),
        state_rows=sum(each["numRowsTotal"] for each in report.get("stateOperators") or ()),
        state_bytes=sum(each["memoryUsedBytes"] for each in report.get("stateOperators") or ()),
    )


def behind(report: Any) -> dict[str, int]:
    """The messages of each topic that were there when a batch was planned, and are not in it.

    ``report`` is a ``StreamingQueryProgress``, as ``query.lastProgress``. Spark shows no metrics of
    sources in Python, such as the offsets behind latest of Kafka's.
    """
    found: dict[str, int] = {}
    for source in report["sources"]:
        end, latest = position(source["endOffset"]), position(source["latestOffset"])
        for place, offset in end.offsets.items():
            more = max(0, latest.offsets.get(place, offset) - offset)
            found[place.topic] = found.get(place.topic, 0) + more
    return found


def rows_read(report: Any) -> int:
    """The messages of a batch: of an archive Spark itself counts the files."""
    return observed(report, "input", "rows") or int(report["numInputRows"])


def observed(report: Any, observation: str, metric: str) -> int:
    """A metric of ``DataFrame.observe`` in a report, 0 without it."""
    row = (report.get("observedMetrics") or {}).get(observation)
    return int(row[metric] or 0) if row is not None and metric in row else 0


def position(stored: Any) -> Position:
    """A report's offset in our terms; Spark gives it as text or parsed.

    Without one ("null" in a batch that it repeats), and of another source, it is empty.
    """
    try:
        return from_checkpoint(json.loads(stored) if isinstance(stored, str) else stored)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Position({}, "", {})

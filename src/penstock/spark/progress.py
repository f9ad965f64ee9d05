"""How far a running query is, in the terms of this source: rows, positions and lag."""

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
    """One finished micro-batch; ``lag`` counts the messages after it when it was planned."""

    batch: int
    rows: int
    duration_ms: int
    lag: int
    end: Offsets

    @property
    def rows_per_s(self) -> float:
        return self.rows * 1000 / max(1, self.duration_ms)


class Follower:
    """Hands out each finished batch of a query once; call it a few times a second."""

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
    """The reports of batches after this one that brought rows."""
    return [each for each in recent if each["batchId"] > after and each["numInputRows"]]


def batch_done(report: Any) -> BatchDone:
    """A query's progress report (``StreamingQueryProgress``) in our terms."""
    source = report["sources"][0]
    end = position(source["endOffset"]).offsets
    latest = position(source["latestOffset"]).offsets or end
    return BatchDone(
        batch=report["batchId"],
        rows=report["numInputRows"],
        duration_ms=report["batchDuration"],
        lag=sum(max(0, latest[place] - offset) for place, offset in end.items() if place in latest),
        end=end,
    )


def position(stored: Any) -> Position:
    """A report's offset in our terms; Spark gives it as text or parsed.

    Without one ("null" in a batch that it repeats), and of another source, it is empty.
    """
    try:
        return from_checkpoint(json.loads(stored) if isinstance(stored, str) else stored)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Position({}, "", {})

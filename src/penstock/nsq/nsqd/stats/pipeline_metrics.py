"""Metrics of the pipelines that tell this node how they are; none without a pipeline.

A pipeline tells every node that it reads from. Its lag is that on the node, so that lags of several
nodes add up; all else is the pipeline's as a whole, and the same on each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.core.metrics import nsqd as metrics
from penstock.core.metrics.declared import Metric
from penstock.core.metrics.exposition import Samples, labels
from penstock.nsq.pipeline_status import ToldStatus

_ROWS: Final[tuple[tuple[Metric, Callable[[ToldStatus], float]], ...]] = (
    (metrics.PIPELINE_RUNNING, lambda told: told.state == "running"),
    (metrics.PIPELINE_FAILED, lambda told: told.state == "failed"),
    (metrics.PIPELINE_AGE, lambda told: told.age),
    (metrics.PIPELINE_ROWS_READ, lambda told: told.rows_read),
    (metrics.PIPELINE_ROWS_WRITTEN, lambda told: told.rows_written),
    (metrics.PIPELINE_ROWS_BAD, lambda told: told.rows_bad),
    (metrics.PIPELINE_READ_RATE, lambda told: told.read_per_s),
    (metrics.PIPELINE_WRITTEN_RATE, lambda told: told.written_per_s),
    (metrics.PIPELINE_LAG, lambda told: told.lag),
    (metrics.PIPELINE_BATCHES, lambda told: told.batches),
    (metrics.PIPELINE_BATCH_SECONDS, lambda told: told.batch_ms / 1000),
    (metrics.PIPELINE_STATE_ROWS, lambda told: told.state_rows),
    (metrics.PIPELINE_STATE_BYTES, lambda told: told.state_bytes),
    (metrics.PIPELINE_ERROR_TIME, lambda told: told.error_at),
)


def of(pipelines: Iterable[ToldStatus]) -> list[Samples]:
    """The metrics of these pipelines, each by its name and id."""
    shown = [(labels({"pipeline": told.name, "id": told.id}), told) for told in pipelines]
    found = []
    for metric, value in _ROWS:
        samples = Samples(metric)
        for pair, told in shown:
            samples.add(value(told), pair)
        found.append(samples)
    return found

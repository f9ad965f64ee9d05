"""Metrics of the pipelines that tell this node how they are; none without a pipeline.

A pipeline tells every node that it reads from. Its lag is that on the node, so that lags of several
nodes add up; all else is the pipeline's as a whole, and the same on each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.core.exposition import Metric, labels
from penstock.nsq.pipeline_status import ToldStatus

_Row = tuple[str, str, Callable[[ToldStatus], float]]

_ROWS: Final[tuple[_Row, ...]] = (
    ("running", "1 while the pipeline runs, by what it told last.",
     lambda told: told.state == "running"),
    ("failed", "1 after it ended with an error.", lambda told: told.state == "failed"),
    ("age_seconds", "Time since it told how it is; every 10 s while it runs.",
     lambda told: told.age),
    ("rows_read_total", "Rows from its source in this run.", lambda told: told.rows_read),
    ("rows_written_total", "Rows to its sink in this run.", lambda told: told.rows_written),
    ("rows_bad_total", "Rows in this run that did not parse.", lambda told: told.rows_bad),
    ("read_rate", "Rows a second from its source, of a minute.", lambda told: told.read_per_s),
    ("written_rate", "Rows a second to its sink, of a minute.", lambda told: told.written_per_s),
    ("lag", "Messages on this node that it has not read.", lambda told: told.lag),
    ("batches_total", "Micro-batches in this run.", lambda told: told.batches),
    ("batch_seconds", "Time of its last micro-batch.", lambda told: told.batch_ms / 1000),
    ("state_rows", "Rows that windows, joins and unique rows remember.",
     lambda told: told.state_rows),
    ("state_bytes", "Memory of these rows.", lambda told: told.state_bytes),
    ("error_time_seconds", "Time of its last error in seconds since 1970; 0: there was none.",
     lambda told: told.error_at),
)  # fmt: skip


def of(pipelines: Iterable[ToldStatus]) -> list[Metric]:
    """The metrics of these pipelines, each by its name and id."""
    shown = [(labels({"pipeline": told.name, "id": told.id}), told) for told in pipelines]
    metrics = []
    for name, help, value in _ROWS:
        kind = "counter" if name.endswith("_total") else "gauge"
        metric = Metric(f"nsqd_pipeline_{name}", kind, help)
        for pair, told in shown:
            metric.add(value(told), pair)
        metrics.append(metric)
    return metrics

"""Spark's progress reports in our terms."""

from __future__ import annotations

import json
from typing import Any

from penstock.spark.offsets import Place, Position, to_checkpoint
from penstock.spark.read.progress import batch_done, fresh

PLACE = Place("t", "a:1", 0)


def report(batch: int, rows: int, end: int, latest: int | None, text: bool = False) -> Any:
    offset = to_checkpoint(Position({PLACE: end}, "g", {}))
    source = {
        "endOffset": json.dumps(offset) if text else offset,
        "latestOffset": None
        if latest is None
        else to_checkpoint(Position({PLACE: latest}, "g", {})),
    }
    return {"batchId": batch, "numInputRows": rows, "batchDuration": 500, "sources": [source]}


def test_a_batch() -> None:
    for text in (False, True):
        done = batch_done(report(3, 100, 400, 1000, text))
        assert (done.batch, done.rows, done.lag, done.end) == (3, 100, 600, {PLACE: 400})
        assert done.rows_per_s == 200
    repeated = report(3, 100, 400, None)
    for nothing in (None, "null"):
        repeated["sources"][0]["latestOffset"] = nothing
        assert batch_done(repeated).lag == 0


def test_only_new_batches_with_rows() -> None:
    reports = [report(1, 5, 5, 9), report(2, 0, 5, 9), report(3, 4, 9, 9)]
    assert [each["batchId"] for each in fresh(reports, -1)] == [1, 3]
    assert [each["batchId"] for each in fresh(reports, 1)] == [3]

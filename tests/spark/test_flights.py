"""Metrics of a data set that people know, against pandas: every flight from New York in 2013."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock.arrow
from penstock.cli.live.flights import FLIGHTS, data_folder
from penstock.spark.pipelines import Pipeline
from penstock.testing.daemons import Daemon, run_nsqd

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
PERCENTILES = (0.5, 0.95)
ACCURACY = 10_000
"""Spark's default: a percentile's rank is wrong by less than this part of the rows."""


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1") as daemon:
        yield daemon


def test_metrics_of_all_flights_equal_those_of_pandas(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    publish = [sys.executable, str(EXAMPLES / "flights.py"), nsqd.tcp]
    said = subprocess.run(publish, capture_output=True, text=True, check=True, timeout=300).stdout
    assert said == f"published {FLIGHTS} flights\n"
    file = tmp_path / "flights-metrics.toml"
    text = (EXAMPLES / "flights-metrics.toml").read_text()
    file.write_text(text.replace("127.0.0.1:4151", nsqd.http).replace("run/", f"{tmp_path}/"))
    batches = 0
    for query in Pipeline.from_file(file).start(spark, {"availableNow": True}):
        assert query.awaitTermination(500)
        batches = max(batches, len(query.recentProgress))

    assert batches > 3, "the state of a day that two batches share is joined"
    found = metrics(nsqd)
    wanted = {day: rows["dep_delay"] for day, rows in by_day_and_carrier(all_flights())}
    assert found.keys() == wanted.keys()
    for day, delays in wanted.items():
        assert exact(found[day]) == exact_of(delays), day
        for p, value in zip(PERCENTILES, found[day].get("percentiles", []), strict=False):
            assert rank_error(value, p, delays) <= len(delays) / ACCURACY, (day, p)


def metrics(nsqd: Daemon) -> dict[tuple[str, str], dict[str, Any]]:
    """What the pipeline wrote, by day and carrier; a pair that is there twice fails."""
    topic = penstock.arrow.read("flights.metrics", columns=["body"], nsqd_http_address=nsqd.http)
    rows = [json.loads(body) for body in topic.read_all().column("body").to_pylist()]
    found = {(row["day"], row["carrier"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def all_flights() -> DataFrame:
    import pandas

    return pandas.read_csv(data_folder() / "flights.csv.zip", parse_dates=["time_hour"])


def by_day_and_carrier(flights: DataFrame) -> Iterator[tuple[tuple[str, str], DataFrame]]:
    days = flights["time_hour"].dt.strftime("%Y-%m-%dT00:00:00.000Z")
    yield from flights.groupby([days, "carrier"])


def exact(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that leave no room; null, which to_json leaves out, is None."""
    names = ("flights", "cancelled", "late", "mean", "longest")
    return {name: row.get(name) for name in names}


def exact_of(delays: Series[float]) -> dict[str, Any]:
    departed = delays.count() > 0
    return {
        "flights": len(delays), "cancelled": delays.isna().sum(), "late": (delays > 15).sum(),
        "mean": delays.mean() if departed else None,
        "longest": delays.max() if departed else None,
    }  # fmt: skip


def rank_error(value: float, p: float, delays: Series[float]) -> int:
    """How many places a percentile is away from where it belongs; equal values share theirs."""
    ordered = sorted(delays.dropna())
    first, last = bisect_left(ordered, value) + 1, bisect_right(ordered, value)
    assert first <= last, "it is one of the values"
    rank = math.ceil(p * len(ordered))
    return max(first - rank, rank - last, 0)

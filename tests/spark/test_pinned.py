"""Nodes that nsqlookupd names once, and the checkpoint keeps: metrics whose rows have no body."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.errors import SinkError
from penstock.spark.pipelines import Pipeline
from penstock.testing.daemons import Daemon, run_nsqlookupd
from tests.spark.test_sink import Start, start, wait_for_node, wait_for_topic, write, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start"]

METRICS = """
[pipeline]
name = "api-metrics"
[source]
format = "nsq"
topic = "api_requests"
lookupd_http_address = ["{lookupd}"]
startingTimestamp = "-1h"
[parse]
json = "ts timestamp, endpoint string, status int, ms double"
watermark = "ts 2 minutes"
bad = "api_requests.bad"
[sql]
query = '''
  select window(ts, '1 minute') w, endpoint, count(*) n, percentile_approx(ms, 0.99) p99
  from input group by 1, 2'''
[sink]
format = "nsq"
topic = "api_metrics"
exactlyOnce = true
[run]
every = "10s"
checkpoint = "{folder}/api-metrics"
"""


def joined(lookupd: Daemon, start: Start) -> Daemon:
    node = start("--broadcast-address=127.0.0.1", f"--lookupd-tcp-address={lookupd.tcp}")
    wait_for_node(lookupd, node)
    return node


def run(spark: SparkSession, file: Path) -> None:
    for query in Pipeline.from_file(file).start(spark, {"availableNow": True}):
        assert query.awaitTermination(500)


def request(minute: int, ms: float) -> dict[str, Any]:
    return {"ts": f"2026-01-01T10:{minute:02d}:30Z", "endpoint": "/a", "status": 200, "ms": ms}


def test_a_pipeline_keeps_the_nodes_that_nsqlookupd_named(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    with run_nsqlookupd() as lookupd:
        first = joined(lookupd, start)
        file = tmp_path / "api-metrics.toml"
        file.write_text(METRICS.format(lookupd=lookupd.http, folder=tmp_path))
        come = spark.createDataFrame([(json.dumps(request(0, 1.5)),), ("broken",)], "body string")
        write(come, first, topic="api_requests")
        wait_for_topic(lookupd, first, "api_requests")
        run(spark, file)
        kept = tmp_path / "api-metrics/penstock.nodes.json"
        assert json.loads(kept.read_text()) == [first.http]

        second = joined(lookupd, start)
        write(
            spark.createDataFrame([(json.dumps(request(9, 2.5)),)], "body string"),
            second,
            topic="api_requests",
        )
        wait_for_topic(lookupd, second, "api_requests")
        run(spark, file)
        # The second node's rows are read, and what becomes of them is written to the first alone.
        assert [json.loads(body) for body in written(spark, "api_metrics", first)] == [
            {"w": {"start": "2026-01-01T10:00:00.000Z", "end": "2026-01-01T10:01:00.000Z"},
             "endpoint": "/a", "n": 1, "p99": 1.5},
        ]  # fmt: skip
        (bad,) = written(spark, "api_requests.bad", first)
        assert json.loads(bad)["reason"] == "the body is not JSON"
        assert json.loads(kept.read_text()) == [first.http]

        kept.unlink()
        run(spark, file)
        assert json.loads(kept.read_text()) == sorted([first.http, second.http])

        # A batch that is not done may have gone to others: without the list it cannot come again.
        kept.unlink()
        commits = tmp_path / "api-metrics/commits"
        max(
            (each for each in commits.iterdir() if each.name.isdecimal()),
            key=lambda each: int(each.name),
        ).unlink()
        with pytest.raises(SinkError, match="has a batch that was not finished, perhaps for other"):
            run(spark, file)

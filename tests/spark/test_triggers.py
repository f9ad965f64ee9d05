"""Limits of micro-batches and splits, from a real nsqd in a real Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.log_api.log_client import LogClient
from penstock.testing.daemons import Daemon, run_nsqd
from tests.spark.test_real_nodes import publish
from tests.spark.test_source import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1", "--retention-time=1h") as daemon:
        yield daemon


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def depth_of(nsqd: Daemon, topic: str) -> int:
    """The number of messages in a topic's log, 0 if it is not there."""
    with LogClient(nsqd.http) as log:
        told = log.offsets_of([topic])[topic]
    return 0 if told is None else told.queues[0].end


def test_batches_of_some_bytes(spark: SparkSession, nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, 1000)
    with LogClient(nsqd.http) as log:
        nbytes = log.offsets("t").queues[0].bytes
    options = {"topic": "t", "nsqd_http_address": nsqd.http, "groupIdPrefix": "billing"}
    rows = Query(spark, tmp_path, maxBytesPerTrigger=str(nbytes // 2), **options).run()
    assert len(rows) in (2, 3)
    assert sum(rows) == 1000
    with LogClient(nsqd.http) as log:
        (group,) = log.offsets("t").groups
    assert group.startswith("billing-")


def test_a_stream_waits_for_enough_messages(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    publish(nsqd, 10)
    stream = spark.readStream.format("nsq").options(
        nsqd_http_address=nsqd.http, startingOffsets="earliest", columns="offset",
        minOffsetsPerTrigger="25", maxTriggerDelay="1h",
    )  # fmt: skip
    query = (
        stream.load("t").writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )  # fmt: skip
    try:
        with LogClient(nsqd.http) as log:
            wait_for(lambda: log.offsets("t").groups)
        publish(nsqd, 10)
        publish(nsqd, 10)
        wait_for(lambda: sum(each["numInputRows"] for each in query.recentProgress) == 30)
        rows = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
        assert rows == [30]
        # Five are too few; a run of AvailableNow takes them.
        publish(nsqd, 5)
    finally:
        query.stop()
    options = {"topic": "t", "nsqd_http_address": nsqd.http}
    again = Query(spark, tmp_path, minRecordsPerTrigger="100", **options)
    assert again.run() == [5]


def test_partitions_of_some_messages(spark: SparkSession, nsqd: Daemon) -> None:
    publish(nsqd, 100)
    frame = spark.read.format("nsq").options(
        nsqd_http_address=nsqd.http, maxRecordsPerPartition="30", columns="body, offset"
    )
    read = frame.load("t")
    assert read.columns == ["body", "offset"]
    assert read.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in read.collect()) == list(range(100))

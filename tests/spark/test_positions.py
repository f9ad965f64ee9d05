"""Reads that start and end where options say, from a real nsqd in a real Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.errors import explain
from penstock.testing.daemons import Daemon, run_nsqd
from tests.spark.test_real_nodes import publish
from tests.spark.test_source import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1", "--retention-time=1h") as daemon:
        yield daemon


def next_millisecond() -> int:
    """A time, in milliseconds since 1970, before which all is published that was, and after which
    all that will be.
    """
    now = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 < now:
        pass
    return now


def test_reads_between_times(spark: SparkSession, nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, 100)
    first = next_millisecond()
    publish(nsqd, 20)
    second = next_millisecond()
    publish(nsqd, 3)

    def count(**options: str) -> int:
        source = spark.read.format("nsq").options(topic="t", nsqd_http_address=nsqd.http)
        return source.options(**options).load().count()

    iso = datetime.fromtimestamp(second / 1000, UTC).isoformat()
    assert count(startingTimestamp=str(first)) == 23
    assert count(startingTimestamp=str(first), endingTimestamp=iso) == 20
    assert count(endingTimestamp=str(first)) == 100
    assert count(startingTimestamp="-1h") == 123

    options = {"topic": "t", "nsqd_http_address": nsqd.http}
    query = Query(spark, tmp_path, startingTimestamp=iso, **options)
    del query.options["startingOffsets"]
    assert query.run() == [3]
    publish(nsqd, 7)
    # A restart goes on from its checkpoint, whatever the option says.
    assert query.run() == [7]

    query.options["endingTimestamp"] = "-1h"
    with pytest.raises(Exception, match="batch reads only") as refused:
        query.run()
    assert explain(refused.value) == "endingTimestamp is for batch reads only: a stream has no end"


def test_the_words_of_kafka_s_users(spark: SparkSession, nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, 100)
    publish(nsqd, 40, "other")
    publish(nsqd, 9, "my.other")
    source = spark.read.format("nsq").option("nsqd_http_address", nsqd.http)
    offsets = {"startingOffsets": '{"t": {"0": 90}}', "endingOffsets": '{"t": {"0": -1}}'}
    assert source.options(**offsets).load("t").count() == 10

    options = {"subscribePattern": "t|o.*", "nsqd_http_address": nsqd.http}
    query = Query(spark, tmp_path, maxOffsetsPerTrigger="100", **options)
    assert query.run() == [100, 40]
    publish(nsqd, 5, "oh")
    assert query.run() == [5]

    with pytest.raises(Exception, match="same option") as refused:
        source.option("topic", "t").load("t").count()
    said = 'topic and load("...") are the same option: give one of them'
    assert explain(refused.value) == said

"""``format("rocketmq")`` as a sink: a real Spark, a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.spark.errors import explain
from tests.spark.rocketmq_brokers import Brokers, run_brokers
from tests.spark.test_exactly_once import forget_last_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


def test_rows_out_are_rows_in_and_are_forwarded(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    for topic in ("t", "u"):
        brokers.make_topic(topic, 4)
    frame = spark.range(0, 20_000, 1, 2).selectExpr(
        "cast(id as string) as body", "concat('k', id) as keys", "'T' as tags",
        "map('colour', if(id % 2 = 0, 'red', null)) as properties",
        "cast(id % 5 as string) as sharding_key",
    )  # fmt: skip
    where = brokers.options("namesrv")
    frame.write.format("rocketmq").mode("append").options(**where).save("t")
    source = {"topic": "t", "startingOffsets": "earliest", **where}
    found = spark.read.format("rocketmq").options(**source).load().collect()
    assert sorted(int(row.body) for row in found) == list(range(20_000))
    for row in found[:100]:
        number = int(row.body)
        assert (row.keys, row.tags) == (f"k{number}", "T")
        assert row.properties.get("colour") == ("red" if number % 2 == 0 else None)

    query = (
        spark.readStream.format("rocketmq").options(**source).load()
        .writeStream.format("rocketmq").options(topic="u", **where)
        .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(500)
    again = spark.read.format("rocketmq").options(topic="u", **where).load()
    assert again.select("body", "keys", "tags").exceptAll(
        spark.createDataFrame([(row.body, row.keys, row.tags) for row in found],
                              "body binary, keys string, tags string")
    ).isEmpty()  # fmt: skip
    assert again.count() == 20_000


def test_a_batch_that_comes_again_is_written_once(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    brokers.make_topic("exact", 4)
    exact = {"topic": "exact", "exactlyOnce": "true", **brokers.options("http")}
    frame = spark.range(0, 10_000, 1, 2).selectExpr("cast(id as string) as body", "'T' as tags")
    for _ in range(2):
        named = {**exact, "writerId": "w", "writerBatch": "0"}
        frame.write.format("rocketmq").mode("append").options(**named).save()
    source = {"topic": "exact", "startingOffsets": "earliest", **brokers.options("http")}

    def forward() -> None:
        stream = spark.readStream.format("rocketmq").options(maxRecordsPerTrigger="6000", **source)
        sink = (
            stream.load().select("body", "keys", "tags", "properties").writeStream
            .format("rocketmq").options(**{**exact, "topic": "twice"})
            .option("checkpointLocation", str(tmp_path))
        )  # fmt: skip
        assert sink.trigger(availableNow=True).start().awaitTermination(500)

    forward()
    forget_last_batch(tmp_path)
    forward()
    for topic in ("exact", "twice"):
        rows = spark.read.format("rocketmq").options(**{**source, "topic": topic}).load()
        found = rows.select("body", "tags").collect()
        assert sorted(int(row.body) for row in found) == list(range(10_000))
        assert {row.tags for row in found} == {"T"}


def test_what_is_wrong_is_told_in_one_sentence(spark: SparkSession, brokers: Brokers) -> None:
    frame = spark.range(0, 100, 1, 1).selectExpr("'x' as body", "if(id = 7, 'a b', 't') as topic")
    with pytest.raises(Exception, match="Error") as failed:
        frame.write.format("rocketmq").mode("append").options(**brokers.options("namesrv")).save()
    assert explain(failed.value).startswith("row 7 of partition 0: topic name 'a b' is invalid: ")

"""``format("rocketmq")``: a real Spark reads real brokers, over HTTP and by name server."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.rocketmq.protocol.messages.message import SysFlag
from penstock.spark.errors import explain
from tests.spark.rocketmq_brokers import WAYS, Brokers, run_brokers
from tests.spark.test_source import Query as NsqQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running


def read(spark: SparkSession, brokers: Brokers, way: str, topic: str, **options: str) -> DataFrame:
    given = {"topic": topic, "timeout": "60", **brokers.options(way), **options}
    return spark.read.format("rocketmq").options(**given).load()


class Query(NsqQuery):
    """A stream of one topic into Parquet, run with AvailableNow as often as asked."""

    def run(self) -> list[int]:
        stream = self.spark.readStream.format("rocketmq").options(**self.options)
        query = (
            stream.load().select("queue", "queue_offset", "body").writeStream.format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )  # fmt: skip
        assert query.awaitTermination(500)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    def rows(self) -> list[tuple[int, int]]:
        frame = self.spark.read.parquet(str(self.folder / "out")).select("queue", "queue_offset")
        return sorted((row.queue, row.queue_offset) for row in frame.collect())


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"m" * (number % 50) + b"%d" % number for number in range(first, first + count)]


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_read_gives_every_column(spark: SparkSession, brokers: Brokers, way: str) -> None:
    topic = f"columns-{way}"
    brokers.make_topic(topic, 3)
    before_ms = int(time.time() * 1000)
    for queue in range(3):
        brokers.send(topic, queue, bodies(100), KEYS="k1 k2", TAGS="TagA", colour="red")
    brokers.send(topic, 1, [zlib.compress(b"z" * 5000)], int(SysFlag.COMPRESSED))

    rows = read(spark, brokers, way, topic).orderBy("queue", "queue_offset").collect()
    places = [(row.queue, row.queue_offset) for row in rows]
    assert places == [(q, o) for q in range(3) for o in range(101 if q == 1 else 100)]
    assert [row.body for row in rows if row.queue == 0] == bodies(100)
    assert rows[200].body == b"z" * 5000
    assert rows[200].tags is None
    first = rows[0].asDict()
    assert (first["topic"], first["broker"]) == (topic, brokers.name(way, topic))
    assert (first["keys"], first["tags"]) == ("k1 k2", "TagA")
    assert first["properties"].items() >= {"KEYS": "k1 k2", "TAGS": "TagA", "colour": "red"}.items()
    assert first["born_timestamp"].timestamp() == 1_700_000_000
    assert before_ms <= first["store_timestamp"].timestamp() * 1000 <= time.time() * 1000


@pytest.mark.parametrize("way", WAYS)
def test_a_read_between_offsets_of_queues_and_from_a_time(
    spark: SparkSession, brokers: Brokers, way: str
) -> None:
    topic = f"between-{way}"
    brokers.make_topic(topic, 2)
    for queue in range(2):
        brokers.send(topic, queue, bodies(500))
    name = brokers.name(way, topic)
    start = json.dumps({topic: {name: {"0": 30, "1": 490}}})
    end = json.dumps({topic: {name: {"0": 40, "1": -1}}})
    frame = read(spark, brokers, way, topic, startingOffsets=start, endingOffsets=end)
    rows = sorted((row.queue, row.queue_offset) for row in frame.collect())
    assert rows == [(0, o) for o in range(30, 40)] + [(1, o) for o in range(490, 500)]

    between_ms = int(time.time() * 1000) + 2
    while time.time() * 1000 <= between_ms:
        time.sleep(0.001)
    assert read(spark, brokers, way, topic, startingTimestamp=str(between_ms)).count() == 0
    brokers.send(topic, 1, bodies(7))
    since = read(spark, brokers, way, topic, startingTimestamp=str(between_ms))
    assert sorted((row.queue, row.queue_offset) for row in since.collect()) == [
        (1, offset) for offset in range(500, 507)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_goes_on_where_it_was_and_its_group_shows_the_lag(
    spark: SparkSession, brokers: Brokers, tmp_path: Path, way: str
) -> None:
    topic, group = f"stream-{way}", f"group-{way}"
    brokers.make_topic(topic, 2)
    brokers.send(topic, 0, bodies(2000))
    brokers.send(topic, 1, bodies(500))
    query = Query(
        spark, tmp_path, topic=topic, group=group, maxRecordsPerTrigger="1000",
        **brokers.options(way),
    )  # fmt: skip
    first = query.run()
    assert sum(first) == 2500
    assert max(first) <= 1000
    assert brokers.lag(topic, group) == {0: 0, 1: 0}

    brokers.send(topic, 1, bodies(250))
    assert brokers.lag(topic, group) == {0: 0, 1: 250}
    assert query.run() == [250]
    assert query.run() == []
    assert query.rows() == [(0, o) for o in range(2000)] + [(1, o) for o in range(750)]
    assert brokers.lag(topic, group) == {0: 0, 1: 0}


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_deleted_and_made_again_ends_the_query_unless_told_otherwise(
    spark: SparkSession, brokers: Brokers, tmp_path: Path, way: str
) -> None:
    topic = f"again-{way}"
    brokers.make_topic(topic, 1)
    brokers.send(topic, 0, bodies(500))
    options = {"topic": topic, **brokers.options(way)}
    assert Query(spark, tmp_path, **options).run() == [500]
    brokers.delete_topic(topic)
    brokers.make_topic(topic, 1)
    brokers.send(topic, 0, bodies(300))

    with pytest.raises(Exception, match="deleted and created again") as failure:
        Query(spark, tmp_path, **options).run()
    said = explain(failure.value)
    assert f"topic {topic} (queue 0) on node {brokers.name(way, topic)} " in said
    assert "failOnDataLoss=false" in said
    assert "\n" not in said
    lenient = Query(spark, tmp_path, failOnDataLoss="false", **options)
    assert lenient.run() == [300]
    assert lenient.rows() == sorted([(0, o) for o in range(500)] + [(0, o) for o in range(300)])


def test_every_topic_with_a_star_leaves_the_brokers_own_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    with run_brokers() as brokers:
        for topic in ("one", "two"):
            brokers.make_topic(topic, 2)
            brokers.send(topic, 1, bodies(10))
        for way in WAYS:
            topics = [row.topic for row in read(spark, brokers, way, "*").collect()]
            assert sorted(topics) == ["one"] * 10 + ["two"] * 10


def test_errors_name_what_is_missing(spark: SparkSession, brokers: Brokers) -> None:
    with pytest.raises(Exception, match="nope") as missing:
        read(spark, brokers, "namesrv", "nope").count()
    assert explain(missing.value) == (
        f"no node with topic nope is known to name server {brokers.namesrv.rocketmq}"
    )
    with pytest.raises(Exception, match="refused") as unreachable:
        read(spark, brokers, "namesrv", "t", namesrvAddr="127.0.0.1:9", timeout="1").count()
    assert explain(unreachable.value).startswith(
        "no name server answers for topic t: connection refused"
    )

"""``format("nsq")`` in a real Spark over a log server that can be made to misbehave."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.errors import explain
from tools.harness.fake_log_server import FIRST_ID, FakeLogServer
from tools.harness.processes import below

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIXED = [b"m" * (i % 90) for i in range(250)]
EQUAL = [b"%08d" % i for i in range(250)]


def fill(server: FakeLogServer, topic: str, batches: int = 8, queue: int = 0) -> list[bytes]:
    """Publish alternating batches; the bodies in order."""
    bodies: list[bytes] = []
    for number in range(batches):
        chunk = EQUAL if number % 2 else MIXED
        server.queue(topic, queue).append(chunk)
        bodies += chunk
    return bodies


def read(spark: SparkSession, server: FakeLogServer, topic: str, **options: str) -> DataFrame:
    given = {"topic": topic, "nsqd_http_address": server.address, "timeout": "60", **options}
    return spark.read.format("nsq").options(**given).load()


class Query:
    """A stream of one topic into Parquet, run with AvailableNow as often as asked."""

    def __init__(self, spark: SparkSession, folder: Path, **options: str) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"startingOffsets": "earliest", "timeout": "60", **options}

    def run(self) -> list[int]:
        """Rows of each batch of this run."""
        stream = self.spark.readStream.format("nsq").schema("offset long, body binary, queue int")
        query = (
            stream.options(**self.options).load().writeStream.format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )  # fmt: skip
        assert query.awaitTermination(500)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    def rows(self) -> list[tuple[int, int]]:
        """Queue and offset of everything archived, sorted."""
        frame = self.spark.read.parquet(str(self.folder / "out")).select("queue", "offset")
        return sorted((row.queue, row.offset) for row in frame.collect())


def test_batch_read_gives_every_column(spark: SparkSession, server: FakeLogServer) -> None:
    bodies = fill(server, "t")
    rows = read(spark, server, "t").orderBy("offset").collect()
    assert [row.body for row in rows] == bodies
    assert [row.offset for row in rows] == list(range(len(bodies)))
    last = rows[-1].asDict()
    assert last["id"] == f"{FIRST_ID + len(bodies) - 1:016x}"
    assert (last["topic"], last["node"], last["queue"], last["attempts"]) == (
        "t", server.node, 0, 1,
    )  # fmt: skip


def test_batch_read_between_offsets_of_several_queues(
    spark: SparkSession, server: FakeLogServer
) -> None:
    fill(server, "t", queue=0)
    fill(server, "t", queue=1)
    start = json.dumps({"t": {server.node: {"0": 30, "1": 1990}}})
    end = json.dumps({"t": {server.node: {"0": 40, "1": -1}}})
    frame = read(spark, server, "t", startingOffsets=start, endingOffsets=end)
    rows = sorted((row.queue, row.offset) for row in frame.select("queue", "offset").collect())
    assert rows == [(0, o) for o in range(30, 40)] + [(1, o) for o in range(1990, 2000)]


def is_runner(pid: int) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return b"python_streaming_source_runner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_that_is_killed_beside_the_driver_is_named(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    fill(server, "t")
    query = (
        spark.readStream.format("nsq").options(topic="t", nsqd_http_address=server.address).load()
        .writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    )  # fmt: skip
    query.processAllAvailable()
    deadline = time.monotonic() + 60
    while not (runners := [pid for pid in below(os.getpid()) if is_runner(pid)]):
        assert time.monotonic() < deadline  # the list of children is not exact while some end
    for pid in runners:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        query.awaitTermination(500)
    assert explain(failed.value).startswith("a Python process of the query ended before")


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, server: FakeLogServer) -> None:
    server.queue("t")
    assert read(spark, server, "t").count() == 0


def test_nodes_are_found_by_nsqlookupd(spark: SparkSession, server: FakeLogServer) -> None:
    bodies = fill(server, "t", 2)
    server.producers.append(server.address)
    frame = spark.read.format("nsq").option("topic", "t")
    assert frame.option("lookupd_http_address", server.address).load().count() == len(bodies)


def test_a_short_outage_is_sat_out(spark: SparkSession, server: FakeLogServer) -> None:
    bodies = fill(server, "t", 2)
    server.fail_fetches = 2
    assert read(spark, server, "t").count() == len(bodies)
    assert server.fetches > 2


def test_stream_with_admission_resumes_and_moves_its_group(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    fill(server, "t", queue=0)
    fill(server, "t", 2, queue=1)
    query = Query(
        spark, tmp_path, topic="t", nsqd_http_address=server.address, maxRecordsPerTrigger="1000"
    )
    first = query.run()
    assert sum(first) == 2500
    assert max(first) <= 1000
    assert len(first) == 3
    # The last batch counts too, although Spark never calls commit for it.
    (group,) = server.groups["t"]
    assert group.startswith("spark-")
    assert server.groups["t"][group] == {"0": 2000, "1": 500}

    fill(server, "t", 1, queue=1)
    assert query.run() == [250]
    assert query.run() == []
    assert query.rows() == [(0, o) for o in range(2000)] + [(1, o) for o in range(750)]
    assert list(server.groups["t"]) == [group]
    assert server.groups["t"][group] == {"0": 2000, "1": 750}


def test_every_topic_with_a_star(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    fill(server, "a", 1)
    fill(server, "b", 2)
    fill(server, "c#ephemeral", 2)
    query = Query(spark, tmp_path, topic="*", nsqd_http_address=server.address, group="g")
    assert query.run() == [750]
    fill(server, "d", 1)
    assert query.run() == [250]
    assert server.groups["d"] == {"g": {"0": 250}}


@pytest.mark.parametrize("lost", ["retention", "quarantine"])
def test_lost_offsets_end_the_query_unless_told_otherwise(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path, lost: str
) -> None:
    fill(server, "t", 1)
    options = {"topic": "t", "nsqd_http_address": server.address}
    assert Query(spark, tmp_path, **options).run() == [250]
    fill(server, "t", 3)
    queue = server.queue("t")
    if lost == "retention":
        queue.start = 500
        queue.drop(0)
    queue.drop(1 if lost == "quarantine" else 0)

    with pytest.raises(Exception, match="offset 250") as failure:
        Query(spark, tmp_path, **options).run()
    said = explain(failure.value)
    assert said.startswith(f"offset 250 of topic t (queue 0) on node {server.node} is ")
    assert "failOnDataLoss=false" in said
    assert "\n" not in said

    assert Query(spark, tmp_path, failOnDataLoss="false", **options).run() == [500]


def test_errors_name_what_is_missing(spark: SparkSession, server: FakeLogServer) -> None:
    with pytest.raises(Exception, match="nope") as missing:
        read(spark, server, "nope").count()
    assert explain(missing.value) == f"topic nope does not exist on node {server.address}"

    fill(server, "t", 1)
    gone = {"nsqd_http_address": "127.0.0.1:9", "timeout": "1"}
    with pytest.raises(Exception, match="refused") as unreachable:
        read(spark, server, "t", **gone).count()
    assert explain(unreachable.value).startswith("node 127.0.0.1:9 cannot be reached for topic t: ")

    beyond = json.dumps({"t": {server.node: {"0": 9000}}})
    with pytest.raises(Exception, match="9000") as ahead:
        read(spark, server, "t", startingOffsets=beyond).count()
    assert explain(ahead.value).startswith(
        f"offset 9000 of topic t (queue 0) on node {server.node}"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, 'the option "topic" is missing'),
        ({"topic": "t"}, "say where the nodes are"),
        ({"topic": "t", "nsqd_http_address": "h:1", "minPartitions": "0"}, "minPartitions must be"),
        ({"topic": "t", "nsqd_http_address": "h:1", "colour": "red"}, "knows no option colour"),
    ],
)
def test_wrong_options(spark: SparkSession, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match="Error") as wrong:
        spark.read.format("nsq").options(**options).load().count()
    assert said in explain(wrong.value)


def test_a_select_with_options(spark: SparkSession, server: FakeLogServer) -> None:
    """CREATE TABLE ... OPTIONS loses them in Spark, for any source in Python."""
    bodies = fill(server, "t", 1)
    spark.sql("create table log_of_nsq using nsq options (topic = 't')")
    try:
        options = f"topic = 't', nsqd_http_address = '{server.address}'"
        counted = spark.sql(
            f"select count(*) c, max(offset) last from log_of_nsq with ({options}) where offset > 9"
        )
        assert [tuple(row) for row in counted.collect()] == [(len(bodies) - 10, len(bodies) - 1)]
        with pytest.raises(Exception, match="Error") as lost:
            spark.sql("select * from log_of_nsq").collect()
        assert explain(lost.value) == 'the option "topic" is missing'
    finally:
        spark.sql("drop table log_of_nsq")

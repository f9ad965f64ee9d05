"""``exactlyOnce=true``: tasks and batches that are run again, nodes that are killed."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from penstock.log_api.write_client import Decision, WriteClient
from penstock.testing.daemons import Daemon
from tests.programs.nsq.nsqd.staging import staged_body
from tests.spark.test_sink import Start, failure, killing, start, write, written
from tests.spark.test_triggers import wait_for

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["start"]
EXACT = {"topic": "t", "exactlyOnce": "true", "requestBytes": "50000", "timeout": "60"}
WAIT_S_MAX = 300


def staged(http: str) -> list[dict[str, Any]]:
    """The memory of writers at a node."""
    with urllib.request.urlopen(f"http://{http}/stage", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["writers"]
        return found


def numbers(last: int) -> list[str]:
    return sorted(str(number) for number in range(last))


def failing_once(http: str, marker: Path) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A step whose first attempt in partition 0 fails when some of its rows are staged; the second
    gives them in the opposite order.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        whole = list(batches)
        if task is None or task.partitionId():
            yield from whole
        elif task.attemptNumber():
            for batch in reversed(whole):
                yield batch.take(list(reversed(range(batch.num_rows))))
        else:
            # The last may still be in a buffer, so only what was before it is waited for.
            yield from whole[:-1]
            for _ in range(WAIT_S_MAX * 10):
                if any(each["staged_bytes"] for each in staged(http)):
                    marker.touch()
                    break
                time.sleep(0.1)
            raise RuntimeError("the first attempt fails")

    return rows


def test_a_task_that_is_tried_again_with_rows_in_another_order(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    node = start()
    marker = tmp_path / "staged"
    frame = spark.range(0, 80_000, 1, 2).selectExpr("cast(id as string) as body")
    shaky = frame.mapInArrow(failing_once(node.http, marker), "body string")
    write(shaky, node, **EXACT, writerId="w", writerBatch="1")
    assert marker.exists()
    assert written(spark, "t", node) == numbers(80_000)
    assert [(each["committed"], each["staged_bytes"]) for each in staged(node.http)] == [(1, 0)]

    # The whole write once more: the number of the batch says that it is there already.
    write(frame, node, **EXACT, writerId="w", writerBatch="1")
    assert written(spark, "t", node) == numbers(80_000)
    write(frame.limit(0), node, **EXACT, writerId="w", writerBatch="2")


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, start: Start) -> None:
    node = start()
    frame = spark.range(0, 30_000, 1, 1)
    bad = frame.selectExpr("if(id = 25000, repeat('x', 2000000), 'y') as body")
    said = failure(bad, node, **EXACT, writerId="w", writerBatch="1")
    assert said.startswith("row 25000 of partition 0: 2000000 bytes are more than node")
    assert written(spark, "t", node) == []
    # The driver has not waited long for the node to drop them.
    wait_for(lambda: not any(each["staged_bytes"] for each in staged(node.http)))


def test_a_node_that_is_killed_and_started_again(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    node, other = start(), start()
    frame = spark.range(0, 100_000, 1, 2).selectExpr("cast(id as string) as body")
    marker = tmp_path / "killed"

    def revive() -> None:
        wait_for(marker.exists)
        node.kill()
        node.start()

    doomed = frame.mapInArrow(killing(node.pid, marker), "body string")
    reviving = Thread(target=revive, daemon=True)
    reviving.start()
    write(doomed, node, other, **EXACT, writerId="w", writerBatch="0")
    reviving.join(WAIT_S_MAX)
    assert written(spark, "t", node, other) == numbers(100_000)


def test_a_batch_that_an_earlier_driver_decided_is_finished_and_not_computed_again(
    spark: SparkSession, start: Start
) -> None:
    """That driver died when one of two nodes had committed; the rows are others now."""
    nodes = sorted((start(), start()), key=lambda node: node.http)
    decision = Decision(1, tuple((node.http, 1) for node in nodes), ((0, 7),))
    for number, node in enumerate(nodes):
        with WriteClient(node.http) as client:
            client.stage("t", "w", 1, 0, 7, 0, staged_body(b"%d" % number), scope="t")
            client.decide("w", decision, 1, "t")
    with WriteClient(nodes[0].http) as client:
        client.commit_decided("w", 1, "t")

    frame = spark.range(100, 200, 1, 2).selectExpr("cast(id as string) as body")
    for _ in range(2):
        write(frame, *nodes[::-1], **EXACT, writerId="w", writerBatch="1")
        assert written(spark, "t", *nodes) == ["0", "1"]
    write(frame, *nodes[::-1], **EXACT, writerId="w", writerBatch="2")
    assert len(written(spark, "t", *nodes)) == 102


def forget_last_batch(checkpoint: Path) -> None:
    """Make it as if the driver had ended between the sink's commit and the checkpoint's."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


class Forward:
    """A query from one node's topic to others, run with AvailableNow as often as asked."""

    def __init__(self, spark: SparkSession, folder: Path, source: Daemon, *sinks: Daemon) -> None:
        self.spark = spark
        self.folder = folder
        self.source = source
        self.addresses = ",".join(sink.http for sink in sinks)

    def run(self, splits: int) -> int:
        """The number of batches."""
        query = (
            self.spark.readStream.format("nsq")
            .options(topic="t", startingOffsets="earliest", maxRecordsPerTrigger="15000")
            .options(nsqd_http_address=self.source.http, minPartitions=str(splits)).load()
            .writeStream.format("nsq").options(**EXACT)
            .option("nsqd_http_address", self.addresses)
            .option("checkpointLocation", str(self.folder)).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(500)
        return len([each for each in query.recentProgress if each["numInputRows"]])


def test_a_driver_that_ends_between_commit_and_checkpoint(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    source, one, two = start(), start(), start()
    frame = spark.range(0, 40_000, 1, 1).selectExpr("cast(id as string) as body")
    write(frame, source, topic="t")
    forward = Forward(spark, tmp_path, source, one, two)
    assert forward.run(splits=1) == 3
    assert written(spark, "t", one, two) == numbers(40_000)

    forget_last_batch(tmp_path)
    # Other partitions than before, but what was committed is not committed again.
    assert forward.run(splits=2) == 1
    assert written(spark, "t", one, two) == numbers(40_000)
    write(frame.selectExpr("cast(int(body) + 40000 as string) as body"), source, topic="t")
    forward.run(splits=2)
    assert written(spark, "t", one, two) == numbers(80_000)
    for node in (one, two):
        assert len(written(spark, "t", node)) > 30_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"writerId": "w"}, "needs writerId and writerBatch"),
        ({"lookupd_http_address": "h:1", "nsqd_http_address": ""}, "needs the fixed list of nodes"),
    ],
)
def test_what_it_needs(spark: SparkSession, options: dict[str, str], said: str) -> None:
    frame = spark.range(1).selectExpr("'x' as body")
    with pytest.raises(Exception, match=said):
        write(frame, **{**EXACT, "nsqd_http_address": "h:1", **options})

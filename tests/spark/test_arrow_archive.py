"""An archive that tasks write from Arrow: exactly once whatever ends, plans or joins it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from penstock.spark.archive.names import FileName
from penstock.spark.compaction import compact
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.pipelines import Pipeline, archive
from penstock.spark.pipelines.adoption import SET_ASIDE
from penstock.spark.pipelines.spec import Parse, Run, Sink, Source, Spec
from tests.spark.test_exactly_once import forget_last_batch
from tools.harness.fake_log_server import TIMESTAMP_NS, FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_NS = 3_600_000_000_000
BATCH = 100


class Lake:
    """An archive of one topic and the checkpoint of its query."""

    def __init__(self, spark: SparkSession, server: FakeLogServer, folder: Path) -> None:
        self.spark = spark
        self.server = server
        self.to = folder / "lake"
        self.checkpoint = folder / "checkpoint"

    def publish(self, count: int = BATCH, hour: int = 0) -> None:
        queue = self.server.queue("t")
        bodies = [b"%d" % number for number in range(queue.end, queue.end + count)]
        queue.append(bodies, TIMESTAMP_NS + hour * HOUR_NS)

    def run(self, checkpoint: str = "", writer: str | None = None, **options: str) -> list[Any]:
        """Archive all there is; the progress of its batches."""
        source = {
            "topic": "t", "nsqd_http_address": self.server.address, "startingOffsets": "earliest",
            "maxRecordsPerPartition": "50", **options,
        }  # fmt: skip
        sink = Sink("parquet", {"path": str(self.to)}, archive.FOLDERS, writer=writer)
        run = Run(1000, checkpoint or str(self.checkpoint))
        spec = Spec("lake", Source("nsq", source, archive.COLUMNS), sink, run)
        (query,) = Pipeline(spec).start(self.spark, {"availableNow": True})
        assert query.awaitTermination(500)
        return [each for each in query.recentProgress if each["numInputRows"]]

    def files(self) -> list[Path]:
        return sorted(self.to.rglob("*.parquet"))

    def ranges(self) -> list[tuple[str, int, int]]:
        names = [(path.parent.name, FileName.read(path.name)) for path in self.files()]
        return sorted((hour, name.first, name.last) for hour, name in names if name)

    def assert_whole(self) -> None:
        """Each message once, for a reader that lists the folder and for Spark."""
        rows = ds.dataset(str(self.to), partitioning="hive").to_table(columns=["offset", "body"])
        found = sorted(rows.column("offset").to_pylist())
        assert found == list(range(self.server.queue("t").end))
        assert sorted(map(int, rows.column("body").to_pylist())) == found
        assert self.spark.read.parquet(str(self.to)).count() == len(found)


@pytest.fixture
def lake(spark: SparkSession, server: FakeLogServer, tmp_path: Path) -> Lake:
    return Lake(spark, server, tmp_path)


def remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink()


def test_files_are_named_for_their_ranges_and_spark_counts_messages(lake: Lake) -> None:
    lake.publish(130, hour=12)
    lake.publish(70, hour=13)
    (only,) = lake.run()
    assert lake.ranges() == [
        ("hour=12", 0, 50), ("hour=12", 50, 100), ("hour=12", 100, 130),
        ("hour=13", 130, 150), ("hour=13", 150, 200),
    ]  # fmt: skip
    assert (only["numInputRows"], only["observedMetrics"]["output"]["rows"]) == (5, 200)
    lake.assert_whole()
    assert not (lake.to / "_spark_metadata").exists()
    columns = {"topic", "date", "hour", "timestamp", "node", "queue", "offset", "id", "body"}
    assert set(lake.spark.read.parquet(str(lake.to)).columns) == columns


def test_topics_whose_names_hide_files(lake: Lake) -> None:
    topics = [".t", "_t", "..x"]
    for topic in topics:
        lake.server.queue(topic).append([topic.encode()] * BATCH, TIMESTAMP_NS)
    lake.run(topic=",".join(topics))
    wanted = Counter(topic.encode() for topic in topics for _ in range(BATCH))
    rows = ds.dataset(str(lake.to), partitioning="hive").to_table(columns=["body"])
    assert Counter(rows.column("body").to_pylist()) == wanted
    seen = lake.spark.read.parquet(str(lake.to)).collect()
    assert Counter(bytes(row.body) for row in seen) == wanted
    assert {row.topic for row in seen} == {*topics}
    lake.server.owners.clear()
    assert lake.run(checkpoint=f"{lake.checkpoint}-new", topic=",".join(topics)) == []


def test_a_driver_that_ends_between_the_files_and_the_checkpoint(lake: Lake) -> None:
    lake.publish()
    lake.run()
    lake.publish(hour=1)
    lake.publish()
    lake.run()
    files = lake.files()
    lake.server.owners.clear()
    forget_last_batch(lake.checkpoint)
    # Of its batch some files are there: of one split the hour before, but not the one after it.
    second = [file for file in files if FileName.read(file.name).first >= BATCH]  # type: ignore[union-attr]
    remove(second[::2])
    # Other cores and other limits than before, and more to read: the batch has the same files.
    lake.publish()
    lake.run(minPartitions="7", maxRecordsPerPartition="9", maxRecordsPerTrigger="30")
    assert {*files} <= {*lake.files()}
    lake.assert_whole()


def test_a_lost_checkpoint_costs_nothing(lake: Lake) -> None:
    lake.publish()
    lake.publish(hour=1)
    lake.run()
    # A batch that was not whole, and a file of it that was under way.
    gone = lake.files()[1]
    gone.unlink()
    (gone.parent / f".t@{'0' * 32}.unfinished").touch()
    lake.server.owners.clear()
    lake.publish()
    (*_, last) = lake.run(checkpoint=f"{lake.checkpoint}-new", maxRecordsPerPartition="1000")
    assert last["sources"][0]["endOffset"] is not None
    assert gone in lake.files()
    lake.assert_whole()
    assert not list(lake.to.rglob(".*"))
    # What is there up to the first that is missing is not even planned.
    lake.server.owners.clear()
    lake.publish()
    (only,) = lake.run(checkpoint=f"{lake.checkpoint}-newer")
    assert only["observedMetrics"]["input"]["rows"] == BATCH


def test_a_topic_that_is_made_again_is_not_taken_for_what_it_was(lake: Lake) -> None:
    lake.publish()
    lake.run()
    lake.server.delete("t")
    lake.publish(40)
    lake.run(failOnDataLoss="false")
    rows = ds.dataset(str(lake.to), partitioning="hive").to_table(columns=["offset"])
    assert sorted(rows.column("offset").to_pylist()) == sorted([*range(BATCH), *range(40)])


def test_joined_files_are_known_by_their_name(lake: Lake) -> None:
    lake.publish()
    lake.publish(hour=1)
    lake.run()
    result = compact(lake.to)
    assert (result.files_before, result.files_after) == (4, 2)
    assert lake.ranges() == [("hour=0", 0, 100), ("hour=1", 100, 200)]
    lake.assert_whole()
    # Of the batch that is planned again nothing is left to do, nor of a query that is new.
    lake.server.owners.clear()
    forget_last_batch(lake.checkpoint)
    assert lake.run() == []
    lake.server.owners.clear()
    assert lake.run(checkpoint=f"{lake.checkpoint}-new") == []
    lake.publish(hour=1)
    lake.run(checkpoint=f"{lake.checkpoint}-new")
    compact(lake.to)
    assert lake.ranges() == [("hour=0", 0, 100), ("hour=1", 100, 300)]
    lake.assert_whole()


@pytest.mark.parametrize("was_done", [True, False])
def test_an_archive_of_spark_s_writer_is_carried_over(lake: Lake, was_done: bool) -> None:
    lake.publish()
    lake.run(writer="spark")
    lake.publish()
    lake.run(writer="spark")
    if not was_done:
        forget_last_batch(lake.checkpoint)
    # What a killed task left is in no log.
    (orphan, *_) = lake.files()
    (orphan.parent / "part-00000-killed.c000.snappy.parquet").write_bytes(orphan.read_bytes())
    lake.publish()
    lake.server.owners.clear()
    lake.run()
    lake.assert_whole()
    assert len(lake.ranges()) == 2
    assert not (lake.to / "_spark_metadata").exists()
    assert (lake.to / SET_ASIDE).is_dir()
    lake.publish()
    lake.run()
    lake.assert_whole()
    # Names of Spark's files say nothing of what they hold, so only that checkpoint goes on.
    lake.server.owners.clear()
    with pytest.raises(SourceError, match="written with another checkpoint, in 4 files such as"):
        lake.run(checkpoint=f"{lake.checkpoint}-new")


def test_what_would_not_go_together_is_refused_with_the_remedy(lake: Lake) -> None:
    lake.publish()
    lake.run()
    with pytest.raises(SourceError, match=r"written from Arrow, .* give another folder"):
        lake.run(writer="spark")
    lake.server.owners.clear()
    spec = Spec(
        "n", Source("nsq", {"topic": "t", "nsqd_http_address": "h:1"}),
        Sink("parquet", {"path": str(lake.to), "maxRecordsPerFile": "5"}, writer="arrow"),
        Run(1000, str(lake.checkpoint)),
    )  # fmt: skip
    with pytest.raises(OptionError, match='writer = "arrow" cannot have option maxRecordsPerFile'):
        Pipeline(spec).start(lake.spark)


def test_a_node_that_names_no_log(spark: SparkSession, tmp_path: Path) -> None:
    with FakeLogServer(kind="old") as server:
        lake = Lake(spark, server, tmp_path)
        lake.publish()
        with pytest.raises(Exception, match=r'does not say which log .* set writer = "spark"'):
            lake.run()
        lake.run(checkpoint=f"{lake.checkpoint}-new", writer="spark")
        lake.assert_whole()


def test_lines(lake: Lake) -> None:
    lake.publish()
    source = {"topic": "t", "nsqd_http_address": lake.server.address}
    pipeline = archive.pipeline(source, str(lake.to), str(lake.checkpoint), "lines")
    (query,) = pipeline.start(lake.spark, {"availableNow": True})
    assert query.awaitTermination(500)
    lines = lake.spark.read.text(str(lake.to)).collect()
    assert sorted(int(row.value) for row in lines) == list(range(BATCH))
    assert {"".join(path.suffixes[-2:]) for path in lake.to.rglob("t@*")} == {".txt.gz"}


def test_typed_columns_are_written_by_spark(lake: Lake) -> None:
    bodies = [b'{"id": 1, "note": 7, "at": "2026-01-31T12:00:00Z"}', b'{"id": "2"}', b"{}", b"[3]"]
    lake.server.queue("t").append(bodies, TIMESTAMP_NS)
    source = Source("nsq", {"topic": "t", "nsqd_http_address": lake.server.address,
                            "startingOffsets": "earliest"})  # fmt: skip
    typed = Parse("id long, note string, at timestamp")
    sink = Sink("parquet", {"path": str(lake.to)}, writer="arrow")
    spec = Spec("lake", source, sink, Run(1000, str(lake.checkpoint)), typed)
    with pytest.raises(
        OptionError, match=r'writer = "arrow" is for .* without \[sql\] and \[parse\]'
    ):
        Pipeline(spec).start(lake.spark)
    spec = replace(spec, sink=replace(sink, writer=None))
    (query,) = Pipeline(spec).start(lake.spark, {"availableNow": True})
    assert query.awaitTermination(500)
    rows = lake.spark.read.parquet(str(lake.to)).select("id", "note", "at").orderBy("id")
    assert rows.dtypes == [("id", "bigint"), ("note", "string"), ("at", "timestamp")]
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    found = [(row.id, row.note, row.at and row.at.astimezone(UTC)) for row in rows.collect()]
    assert found == [(None, None, None), (1, "7", noon)]
    assert (lake.to / "_spark_metadata").is_dir()


def test_messages_in_the_zone_of_the_session(lake: Lake) -> None:
    lake.publish(hour=3)
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.run()
        rows = lake.spark.read.parquet(str(lake.to)).where("hour != hour(timestamp)")
        assert rows.count() == 0
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {hour for hour, *_ in lake.ranges()} == {"hour=22"}

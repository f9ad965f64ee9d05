"""Decisions of a pipeline that need no Spark: columns, groups, its own files, whom it tells."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from penstock.core.errors import LockedError
from penstock.spark import compaction
from penstock.spark.compaction import compact
from penstock.spark.compaction.swap import staging_of
from penstock.spark.errors import OptionError, SinkError, SourceError
from penstock.spark.pipelines import archive, column_pruning, direct, own, sink_nodes
from penstock.spark.pipelines.ends import check_sink, check_source
from penstock.spark.pipelines.own import alone, group_name, local_folder, require_own
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.reports import about, about_bad
from penstock.spark.pipelines.spec import Parse, Run, Sink, Source, Spec
from penstock.spark.source_settings import SourceSettings
from tests.unit.spark.compaction import lake

NODE = {"topic": "t", "nsqd_http_address": "h:1"}


SPARK: Any = None


def pipeline(source: Source, sink: Sink | None = None, **run: Any) -> Pipeline:
    usual = Sink("console", {})
    return Pipeline(
        Spec("n", source, sink or usual, Run(1000, "c", **run), Parse("n int", bad="t.bad"))
    )


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        (Source("nsq", NODE), "found by the optimiser"),
        (Source("nsq", NODE, "body binary"), "body binary"),
        (Source("nsq", NODE | {"Columns": "topic,body"}), None),
        (Source("kafka", {}), None),
    ],
)
def test_columns_are_found_unless_the_file_chooses(
    monkeypatch: pytest.MonkeyPatch, source: Source, schema: str | None
) -> None:
    asked: list[Source] = []
    monkeypatch.setattr(Pipeline, "_needed", lambda *_: "found by the optimiser")
    monkeypatch.setattr(Pipeline, "_source", lambda _, spark, source: asked.append(source))
    monkeypatch.setattr(Pipeline, "transformed", lambda *_: None)
    monkeypatch.setattr(column_pruning, "sources", lambda _: 1)
    pipeline(source).frame(SPARK)
    assert [each.schema for each in asked] == [schema]
    monkeypatch.setattr(column_pruning, "sources", lambda _: 2)
    grouped = Source("nsq", NODE | {"group": "g"}, "body binary")
    with pytest.raises(OptionError, match="give groupIdPrefix in place of group"):
        pipeline(grouped).frame(SPARK)


def test_a_watermark_finds_its_column_whatever_its_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(column_pruning, "columns", lambda *_: ["body"])
    parse = Parse("n int", ("Timestamp", "1 minute"), ("n",))
    made = Pipeline(Spec("n", Source("nsq", NODE), Sink("console", {}), Run(1000, "c"), parse))
    assert made._needed(SPARK) == "body binary, timestamp timestamp"


@pytest.mark.parametrize(
    ("given", "begins"), [({}, "n-"), ({"group": "g"}, "g"), ({"groupIdPrefix": "billing"}, None)]
)
def test_a_group_of_its_own_unless_the_file_names_one(
    given: dict[str, str], begins: str | None
) -> None:
    asked: dict[str, str] = {}

    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def options(self, **options: str) -> Reader:
            asked.update(options)
            return self

        def load(self) -> None: ...

    spark: Any = SimpleNamespace(
        readStream=Reader(), sparkContext=SimpleNamespace(defaultParallelism=2)
    )
    source = Source("nsq", NODE | given)
    pipeline(source)._source(spark, source)
    group = SourceSettings.parse(asked, "stream").group
    assert group is None if begins is None else str(group).startswith(begins)


def test_settings_of_its_session_and_the_promise_that_letters_share() -> None:
    made = pipeline(Source("nsq", NODE), packages=("a:b:1", "c:d:2"), settings={"k": "v"})
    assert made.settings == {"k": "v", "spark.jars.packages": "a:b:1,c:d:2"}
    assert pipeline(Source("nsq", NODE)).settings == {}
    once = {"exactlyOnce": "true", "topic": "u"}
    for format, promise in (("nsq", {"exactlyOnce": "true"}), ("delta", {})):
        assert pipeline(Source("nsq", NODE), Sink(format, once))._exactly_once() == promise


BROKER = {"topic": "t", "namesrvAddr": "h:1"}
CHANNEL = {
    "mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": "h:1",
    "stagingLocation": "/nowhere",
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (Source("nsq", NODE), "offset"),
        (Source("nsq", CHANNEL), "attempts"),
        (Source("rocketmq", BROKER), "queue_offset"),
    ],
)
def test_columns_of_a_source_are_its_own(source: Source, column: str) -> None:
    check_source(source, StructType().add("body", BinaryType()))
    for name, kind in (("bdy", BinaryType()), (column, StringType())):
        with pytest.raises(OptionError, match=rf"has no column {name} "):
            check_source(source, StructType().add(name, kind))
    # Sources of Spark are its own to check.
    check_source(Source("parquet", {"path": "x"}), StructType().add("n", LongType()))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Sink("nsq", NODE), "n"),
        (Sink("rocketmq", BROKER), "n"),
        (Sink("http", {"url": "http://h/"}), "format http posts no column n"),
        (Sink("http", {}), "say where to post"),
    ],
)
def test_columns_of_a_sink_are_those_it_writes(sink: Sink, said: str) -> None:
    body = StructType().add("body", StringType())
    if sink.options:
        check_sink(SPARK, sink, body)
        body.add("n", LongType())
    with pytest.raises(OptionError, match=said):
        check_sink(SPARK, sink, body)


def test_the_group_belongs_to_topic_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = str(tmp_path / "checkpoint")
    assert group_name("t", "checkpoint", "n") == group_name("t", whole, "n")
    names = {group_name("t", "a", "n"), group_name("t", "b", "n"), group_name("u", "a", "n")}
    assert len(names | {group_name("t", "s3://bucket/a", "n"), group_name("t", "a", "m")}) == 5


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("run/lake", "run/lake"),
        ("/lake", "/lake"),
        ("/lake/at=12:30", "/lake/at=12:30"),
        ("file:/lake", "/lake"),
        ("file:///lake", "/lake"),
        ("file://host/lake", None),
        ("s3a://bucket/lake", None),
        ("dbfs:/mnt/lake", None),
        ("hdfs:/lake", None),
    ],
)
def test_a_folder_of_this_machine(place: str, folder: str | None) -> None:
    assert local_folder(place) == (None if folder is None else Path(folder))


@pytest.mark.parametrize(
    ("written", "planned", "is_own"),
    [
        ([], [], True),
        ([], ["0"], True),
        (["0"], ["0"], True),
        (["9.compact", "10", ".11.tmp"], ["10", "11", ".12.crc"], True),
        (["0"], [], False),
        (["9.compact", "10", ".10.crc"], ["8", "9"], False),
    ],
)
def test_an_archive_of_another_checkpoint_is_refused(
    written: list[str], planned: list[str], is_own: bool
) -> None:
    """Its own is let through wherever the query was killed."""
    said = ("lake already holds rows that were written with another checkpoint; "
            "give that checkpoint or an empty folder")  # fmt: skip
    with nullcontext() if is_own else pytest.raises(SourceError, match=f"^{said}$"):
        require_own("lake", written, planned)


def test_one_pipeline_or_compaction_at_a_time_has_the_files(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    sink = Sink("parquet", {"path": f"file://{made}"})
    with alone(sink), pytest.raises(LockedError, match="is in use"):
        compact(made)
    staging_of(made).mkdir()
    with alone(sink):  # what a compaction that was killed has left is cleared away first
        assert not staging_of(made).exists()
    for without_a_folder_here in (
        Sink("nsq", {"topic": "t"}),
        Sink("parquet", {"path": "s3a://bucket/lake"}),
        Sink("delta", {"path": str(tmp_path / "table")}),
    ):
        with alone(without_a_folder_here):
            assert not (tmp_path / "table").exists()


GIVEN = {"topic": "t", "exactlyOnce": "true"}


class Checkpoint:
    """A checkpoint that has a list of nodes, and perhaps an unfinished batch."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.unfinished = False


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    made = Checkpoint()

    def keep(_spark: Any, _checkpoint: str, nodes: list[str]) -> None:
        made.kept = nodes

    monkeypatch.setattr(own, "text", lambda *_: json.dumps(made.kept) if made.kept else None)
    monkeypatch.setattr(own, "has_unfinished_batch", lambda *_: made.unfinished)
    monkeypatch.setattr(sink_nodes, "_keep", keep)
    return made


def fixed(nodes: str) -> str:
    options = GIVEN | {"nsqd_http_address": nodes}
    return sink_nodes.fixed(SPARK, options, "run")["nsqd_http_address"]


def test_a_list_that_is_given_may_change_when_no_batch_is_unfinished(
    checkpoint: Checkpoint,
) -> None:
    at_least_once = {"topic": "t", "nsqd_http_address": "a:1"}
    assert sink_nodes.fixed(SPARK, at_least_once, "run") == at_least_once
    assert checkpoint.kept == []
    checkpoint.unfinished = True
    assert fixed("a:1,b:1") == "a:1,b:1"  # of a query that has had no list
    assert fixed("b:1,a:1") == "b:1,a:1"
    assert checkpoint.kept == ["a:1", "b:1"]
    with pytest.raises(SinkError) as refused:
        fixed("c:1")
    assert str(refused.value) == (
        "checkpoint run has a batch that was not finished, for nodes a:1, b:1, and the sink names "
        "c:1: run it with the list of before, --available-now, and then with the new one"
    )
    checkpoint.unfinished = False
    assert fixed("c:1") == "c:1"
    assert checkpoint.kept == ["c:1"]


SOURCE = {"topic": "t", "nsqd_http_address": "h:4151"}


def test_the_archive_is_a_pipeline_into_folders_of_topic_date_and_hour() -> None:
    spec = archive.pipeline(SOURCE, "/lake", "/checkpoint").spec
    assert spec.name == "archive"
    assert spec.source == Source("nsq", {"startingOffsets": "earliest", **SOURCE}, archive.COLUMNS)
    assert (spec.sink.format, spec.sink.options["path"]) == ("parquet", "/lake")
    assert spec.sink.partition_by == ("topic", "date", "hour")
    assert spec.run.checkpoint == "/checkpoint"
    latest = archive.pipeline(SOURCE | {"startingOffsets": "latest"}, "/lake", "/c").spec
    assert latest.source.options["startingOffsets"] == "latest"
    since = archive.pipeline(SOURCE | {"startingTimestamp": "-1h"}, "/lake", "/c").spec
    assert since.source.options == SOURCE | {"startingTimestamp": "-1h"}
    lines = archive.pipeline(SOURCE, "/lake", "/checkpoint", "lines").spec
    assert lines.sink.format == "text"
    assert lines.sink.options == {"compression": "gzip", "path": "/lake"}
    assert lines.source.schema == "topic string, timestamp timestamp, body binary"
    assert spec.query is lines.query is None


def test_a_folder_that_is_in_use_is_refused_before_spark_starts(tmp_path: Path) -> None:
    arguments = ["--topic=t", f"--to={tmp_path}", "--checkpoint=/c", "--nsqd-http-address=h:4151"]
    with compaction.held(tmp_path), pytest.raises(LockedError, match="is in use"):
        archive.main(arguments)


FILES = Source("parquet", {"path": "/lake"})
CONSOLE = Sink("console", {})


def spec(source: Source = FILES, sink: Sink = CONSOLE, **more: Any) -> Spec:
    return Spec("n", source, sink, Run(1000, "c"), **more)


def nsq(**options: str) -> dict[str, str]:
    return {"topic": "t", "nsqd_http_address": "h:1,i:2"} | options


def test_nodes_of_the_source_with_its_tls_or_of_the_sink_are_told() -> None:
    found = about(spec(Source("nsq", nsq(tls_v1="true", auth_secret="s")), query="select 1"))
    assert list(found.nodes()) == ["h:1", "i:2"]
    assert found.access is not None
    assert (found.access.tls, found.access.auth_secret) == (True, "s")
    assert (found.source, found.sink, found.sql) == ("nsq t", "console", "select 1")
    found = about(spec(sink=Sink("nsq", nsq(exactlyOnce="true"))))
    assert (list(found.nodes()), found.source) == (["h:1", "i:2"], "parquet /lake")
    for topic in ("%DLQ%billing", "a" * 80, "*"):  # names that only RocketMQ has
        found = about(spec(Source("rocketmq", nsq(topic=topic))))
        assert (list(found.nodes()), found.source) == (["h:1", "i:2"], f"rocketmq {topic}")
    found = about(spec(Source("rocketmq", {"topic": "t", "namesrvAddr": "h:9876"})))
    assert (list(found.nodes()), found.access) == ([], None)


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"startingOffsets": "earliest"}, [("t", own.group_name("t", "c", "n"))]),
        ({"startingOffsets": "earliest", "topic": "t, u", "group": "g"}, [("t", "g"), ("u", "g")]),
        ({"startingOffsets": "earliest", "topic": "*", "group": "g"}, [("*", "g")]),
        ({"startingOffsets": "latest"}, []),
        ({}, []),
        ({"startingOffsets": "earliest", "groupIdPrefix": "p"}, []),
    ],
)
def test_the_groups_that_it_will_have(options: Any, groups: list[tuple[str, str]]) -> None:
    assert list(about(spec(Source("nsq", nsq(**options)))).groups) == groups


def test_the_group_and_the_query_of_bad_rows() -> None:
    source = Source("nsq", nsq(startingOffsets="earliest", group="g"))
    found = about_bad(spec(source, parse=Parse("n int", bad="t.bad"), query="q"))
    assert found.groups == (("t", "g.bad"),)
    assert (found.sink, found.sql) == ("nsq t.bad", "")


LOG = Source("nsq", {"topic": "t", "nsqd_http_address": "h:1"})
LAKE = Sink("parquet", {"path": "/lake"}, ("topic", "date", "hour"))


@pytest.mark.parametrize(
    ("changed", "only_spark"),
    [
        ({}, ""),
        ({"options": {"path": "/l", "compression": "ZSTD"}}, ""),
        ({"options": {"path": "/l", "compression": "lz4"}}, "compression = lz4"),
        ({"options": {"path": "/l", "maxRecordsPerFile": "5"}}, "option maxRecordsPerFile"),
        ({"partition_by": ("topic", "id")}, "partitionBy = id"),
        ({"format": "text", "options": {"path": "/l", "compression": "gzip"}}, ""),
        (
            {"format": "text", "options": {"path": "/l", "compression": "zstd"}},
            "compression = zstd",
        ),
    ],
)
def test_what_arrow_writes_and_what_only_spark_can(changed: Any, only_spark: str) -> None:
    given = spec(LOG, replace(LAKE, writer="arrow", **changed))
    assert direct.is_archive(given)
    assert direct.only_spark(given) == only_spark
    if not only_spark:
        direct.require(given)
        return
    direct.require(replace(given, sink=replace(given.sink, writer=None)))
    with pytest.raises(OptionError, match="arrow.* cannot have " + re.escape(only_spark)):
        direct.require(given)


@pytest.mark.parametrize(
    "more",
    [{"query": "select 1"}, {"parse": Parse("n int")}, {"sink": Sink("json", {"path": "/l"})},
     {"source": FILES}],
)  # fmt: skip
def test_what_is_no_archive_is_written_by_spark(more: Any) -> None:
    given = spec(**{"source": LOG, "sink": LAKE, **more})
    assert not direct.is_archive(given)
    direct.require(given)
    with pytest.raises(OptionError, match=r"without \[sql\] and \[parse\], into parquet or text"):
        direct.require(replace(given, sink=replace(given.sink, writer="arrow")))

"""A pipeline's file as queries of a real Spark: run, resumed, and what the analyser refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.log_api.log_client import LogClient
from penstock.log_api.write_client import WriteClient
from penstock.spark.errors import OptionError, SourceError, explain
from penstock.spark.pipelines import Pipeline, pipeline
from penstock.spark.pipelines.pipeline import wait_for_sources
from penstock.spark.read.progress import BatchDone, Follower
from penstock.testing.daemons import run_nsqd
from tools.harness.fake_log_server import FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARQUET = 'format = "parquet"\npath = "{folder}/out"'
METRICS = """
[source]
topic = "requests"
nsqd_http_address = "{address}"
startingOffsets = "earliest"
timeout = 30
[parse]
json = "ts timestamp not null, endpoint string, ms double"
watermark = "ts 1 minute"
[sql]
query = '''
  select window.start as minute, endpoint, count(*) as n, avg(ms) as mean
  from input group by window(ts, '1 minute'), endpoint'''
[sink]
format = "parquet"
path = "{folder}/out"
[run]
checkpoint = "{folder}/checkpoint"
"""


def request(minute: int, endpoint: str, ms: float) -> bytes:
    return json.dumps(
        {"ts": f"2026-01-01T10:{minute:02d}:30Z", "endpoint": endpoint, "ms": ms}
    ).encode()


def file(folder: Path, server: FakeLogServer, *changes: tuple[str, str]) -> Path:
    text = METRICS.format(address=server.address, folder=folder)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "metrics.toml"
    path.write_text(text)
    return path


def run(spark: SparkSession, path: Path) -> list[BatchDone]:
    (query,) = Pipeline.from_file(path).start(spark, {"availableNow": True})
    assert query.awaitTermination(500)
    return Follower(query).finished()


def test_windows_over_two_runs_and_rows_that_do_not_parse(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    path = file(tmp_path, server)
    first = [request(0, "/a", 1), request(0, "/a", 3), b"broken", request(1, "/b", 5)]
    server.queue("requests").append(first)
    batches = run(spark, path)
    assert (batches[0].rows, batches[0].bad) == (4, 1)
    assert max(batch.state_rows for batch in batches) == 2

    server.queue("requests").append([request(1, "/b", 7), request(9, "/a", 1)])
    batches += run(spark, path)
    assert sum(batch.rows for batch in batches) == 6
    # The last minute is open: rows for it may come.
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("minute").collect()
    assert [(row.minute.minute, row.endpoint, row.n, row.mean) for row in rows] == [
        (0, "/a", 2, 2.0), (1, "/b", 2, 6.0),
    ]  # fmt: skip
    assert sum(batch.written for batch in batches) == 2
    (group,) = server.groups["requests"]
    assert group.startswith("metrics-")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('watermark = "ts 1 minute"\n', "", "mode is not supported for streaming aggregations"),
        ('watermark = "ts 1', 'watermark = "tss 1', r"\[parse\] no column tss; did you mean ts\?"),
        ("avg(ms)", "avg(mss)", "mss.* cannot be resolved"),
        (PARQUET, 'topic = "out"', r"^column minute cannot be packed into a JSON body"),
        (PARQUET, 'topic = "out"\nformat = "rocketmq"\nnamesrvAddr = "h:1"',
         "^format rocketmq writes no column minute"),
    ],
)  # fmt: skip
def test_the_analyser_refuses_before_anything_is_read(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path, old: str, new: str, said: str
) -> None:
    changes = [(old.format(folder=tmp_path), new)]
    if old == PARQUET:
        changes.append(("window.start as", "window.end - window.start as"))
    of_file = Pipeline.from_file(file(tmp_path, server, *changes))
    with pytest.raises(Exception, match=said) as refused:
        of_file.check(spark)
    assert "\n" not in explain(refused.value)
    assert server.requests == []


@pytest.mark.parametrize(("sink", "is_parsed"), [(PARQUET, True), ('topic = "out"', False)])
def test_without_a_query_messages_are_forwarded_as_they_are(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path, sink: str, is_parsed: bool
) -> None:
    text = re.sub(r"(?s)\[sql\].*(?=\[sink\])", "", METRICS)
    text = text.format(address=server.address, folder=tmp_path)
    path = tmp_path / "metrics.toml"
    path.write_text(text.replace(PARQUET.format(folder=tmp_path), sink.format(folder=tmp_path)))
    names = Pipeline.from_file(path).check(spark).columns
    assert "body" in names
    assert ("endpoint" in names) is is_parsed


def test_a_pipeline_that_is_right_passes_the_analyser(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    frame: Any = Pipeline.from_file(file(tmp_path, server)).check(spark)
    assert frame.columns == ["minute", "endpoint", "n", "mean"]
    assert server.requests == []


def test_a_folder_of_another_checkpoint_is_refused(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    server.queue("requests").append([request(0, "/a", 1)])
    run(spark, file(tmp_path, server))
    other = file(tmp_path, server, ("/checkpoint", "/other"))
    with pytest.raises(SourceError, match="written with another checkpoint"):
        Pipeline.from_file(other).start(spark)


def test_sql_may_join_its_input_with_itself(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    join = """query = '''
  select a.endpoint, b.ms from input a join input b
    on a.endpoint = b.endpoint and a.ts = b.ts and a.ms < b.ms'''"""
    path = file(
        tmp_path,
        server,
        ("timeout = 30", "timeout = 30\nmaxRecordsPerTrigger = 2\nminPartitions = 1"),
    )
    path.write_text(re.sub(r"(?s)query = '''.*?'''", join, path.read_text()))
    server.queue("requests").append([request(n, "/a", ms) for n in range(2) for ms in (1, 2)])
    assert len(run(spark, path)) == 2
    assert len(spark.read.parquet(str(tmp_path / "out")).collect()) == 2
    path.write_text(path.read_text().replace("timeout", 'group = "g"\ntimeout'))
    with pytest.raises(OptionError, match="give groupIdPrefix in place of group"):
        Pipeline.from_file(path).check(spark)


def test_a_row_that_comes_between_the_starts_of_both_queries_is_in_a_letter(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd, LogClient(nsqd.http) as log:
        text = METRICS.format(address=nsqd.http, folder=tmp_path)
        text = text.replace('startingOffsets = "earliest"\n', "")
        path = tmp_path / "metrics.toml"
        path.write_text(text.replace("watermark =", 'bad = "requests.bad"\nwatermark ='))
        come = iter((b"between", b"later"))

        def publish(body: bytes) -> None:
            with WriteClient(nsqd.http) as client:
                client.publish("requests", body)

        def wait_and_publish(query: StreamingQuery) -> None:
            wait_for_sources(query)
            publish(next(come))

        def letters() -> list[str]:
            for query in Pipeline.from_file(path).start(spark, {"availableNow": True}):
                assert query.awaitTermination(500)
            return re.findall(r'"body":"(\w+)"', str(log.fetch("requests.bad", 0).data))

        monkeypatch.setattr(pipeline, "wait_for_sources", wait_and_publish)
        publish(b"before")
        assert letters() == ["between"]
        # A query of bad rows that is new begins where the main one stands.
        shutil.rmtree(tmp_path / "checkpoint/bad")
        (group,) = (each for each in log.offsets("requests").groups if ".bad-" in each)
        log.delete_group("requests", group)
        publish(b"stopped")
        assert letters()[-2:] == ["stopped", "later"]

"""The README's archive as a user runs it, over a real nsqd: killed, resumed, refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from penstock.core.errors import PenstockError
from penstock.log_api.log_client import LogClient
from penstock.nsq.protocol import encode
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.own import group_name
from penstock.testing.daemons import Daemon, run_nsqd
from tests.spark.test_exactly_once import forget_last_batch
from tools.harness.fake_log_server import FakeLogServer
from tools.pages.documentation import ROOT, commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 60_000
CHUNK = 500
FEW = 500
"""Rows of a batch: the first run must not come to the end before it is killed."""
ASKED = ["--lookupd-http-address", "127.0.0.1:4161"]
NOW = "--available-now"


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1") as daemon:
        yield daemon


def publish(nsqd: Daemon, first: int, last: int) -> None:
    """Numbered messages of different sizes, over HTTP."""
    for start in range(first, last, CHUNK):
        bodies = [b"%d %s" % (i, b"x" * (i % 37)) for i in range(start, min(last, start + CHUNK))]
        request = urllib.request.Request(
            f"http://{nsqd.http}/mpub?topic=test&binary=true",
            data=encode.multi_body(bodies),
            method="POST",
        )
        urllib.request.urlopen(request, timeout=30).close()


def pipeline(folder: Path, *arguments: str) -> list[str]:
    """The words of the README's command with these flags in the place of its directory."""
    (words,) = (words for words in commands(ROOT / "README.md") if "archive" in words)
    assert words[:4] == ["penstock", "pipeline", "run", "archive"]
    assert words[-2:] == ASKED
    assert NOW in words
    places = {"run/archive/test": str(folder / "lake"),
              "run/archive/test.checkpoint": str(folder / "checkpoint")}  # fmt: skip
    kept = [places.get(word, word) for word in words[1:-2] if word != NOW]
    assert not {*places} & {*kept}
    return [*kept, *arguments]


def process(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "penstock.cli.penstock", *words]


def committed_batches(folder: Path) -> int:
    return len(
        [name for name in (folder / "checkpoint" / "commits").glob("*") if name.name.isdigit()]
    )


def wait_for_batches(folder: Path, runs: Callable[[], bool], count: int) -> None:
    for _ in range(4800):
        if committed_batches(folder) >= count:
            return
        assert runs()
        time.sleep(0.05)
    raise AssertionError("the pipeline did not get going")


def seen_by_any_reader(lake: Path) -> int:
    """The rows that pyarrow finds while a query writes: each once, all in files that are whole."""
    offsets = ds.dataset(str(lake), partitioning="hive").to_table(columns=["offset"])["offset"]
    assert len(offsets) == len(offsets.unique())
    return len(offsets)


def test_killed_and_resumed_without_loss_or_doubles(
    spark: SparkSession, penstock: Callable[..., object], nsqd: Daemon, tmp_path: Path
) -> None:
    """As a program, and then over the one Spark."""
    publish(nsqd, 0, ROWS)
    where = f"--nsqd-http-address={nsqd.http}"
    small = f"--max-records-per-trigger={FEW}"
    with (tmp_path / "out").open("wb") as out:
        first = subprocess.Popen(
            process(pipeline(tmp_path, where, small, "--trigger=10ms")),
            stdout=out, start_new_session=True,
        )  # fmt: skip
        wait_for_batches(tmp_path, lambda: first.poll() is None, 3)
        seen: list[int] = []
        while committed_batches(tmp_path) < 6:
            seen.append(seen_by_any_reader(tmp_path / "lake"))
        assert 0 < seen[0] < seen[-1]
        # The whole group: the JVM must not get the time to finish what it is writing.
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(60)
    assert committed_batches(tmp_path) < ROWS // FEW

    publish(nsqd, ROWS, ROWS + 777)
    penstock(*pipeline(tmp_path, where, NOW))

    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert {"topic", "date", "hour", "node", "queue", "offset", "id", "body"} <= set(lake.columns)
    numbers = lake.selectExpr("cast(split(cast(body as string), ' ')[0] as int) n", "offset")
    rows = sorted(tuple(row) for row in numbers.collect())
    assert rows == [(i, i) for i in range(ROWS + 777)]
    assert seen_by_any_reader(tmp_path / "lake") == len(rows)

    with LogClient(nsqd.http) as log:
        group = group_name("test", str(tmp_path / "checkpoint"), "archive")
        assert log.offsets("test").groups == {group: {0: ROWS + 777}}


def test_a_killed_query_and_one_with_another_checkpoint_go_on(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    source = {"topic": "t", "nsqd_http_address": server.address, "timeout": "30"}
    lake, own = str(tmp_path / "lake"), tmp_path / "own"

    def run(checkpoint: Path) -> None:
        query = archive.start(spark, source, lake, str(checkpoint), {"availableNow": True})
        assert query.awaitTermination(500)

    server.queue("t").append([b"x"] * 10)
    run(own)
    # Killed after the batch was written and before it was committed.
    forget_last_batch(own)
    server.queue("t").append([b"y"] * 5)
    server.owners.clear()  # a query is nobody's owner before its first batch is committed
    run(own)
    run(tmp_path / "new")
    assert seen_by_any_reader(tmp_path / "lake") == spark.read.parquet(lake).count() == 15


def test_what_is_wrong_is_said_in_one_line(nsqd: Daemon, tmp_path: Path) -> None:
    for topic_there, address, said in (
        (False, nsqd.http, f"penstock: topic test does not exist on node {nsqd.http}"),
        (
            True,
            "127.0.0.1:9",
            "penstock: node 127.0.0.1:9 cannot be reached for topic test: connection refused .*",
        ),
    ):
        if topic_there:
            publish(nsqd, 0, 1)
        refused = subprocess.run(
            process(pipeline(tmp_path, "--nsqd-http-address", address)),
            capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert refused.returncode == 1
        assert re.fullmatch(said + "\n", refused.stderr)
        assert refused.stdout == ""


def test_a_node_that_dies_under_the_pipeline(
    penstock: Callable[..., object], nsqd: Daemon, tmp_path: Path
) -> None:
    publish(nsqd, 0, 10)

    def kill() -> None:
        wait_for_batches(tmp_path, lambda: True, 1)
        nsqd.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(PenstockError) as failed:
        penstock(*pipeline(tmp_path, "--nsqd-http-address", nsqd.http, "--timeout=15s"))
    killer.join()
    assert str(failed.value) == (
        f"node {nsqd.http} cannot be reached for topic test: connection refused "
        "(tried for 15 s; --timeout); start it and run the same command to go on "
        "(10 rows read, 10 written in this run)"
    )


def test_an_archive_is_read_by_as_many_tasks_as_the_session_runs_at_once(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    for _ in range(40):
        server.queue("t").append([b"x"] * 1000)
    source = {"topic": "t", "nsqd_http_address": server.address}
    lake = tmp_path / "lake"
    query = archive.start(
        spark, source, str(lake), str(tmp_path / "checkpoint"), {"availableNow": True}
    )
    assert query.awaitTermination(500)
    # Each task writes a file; what the amount asks for would be one.
    assert len(list(lake.rglob("*.parquet"))) == spark.sparkContext.defaultParallelism == 2

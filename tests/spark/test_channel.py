"""``mode=channel`` in a real Spark: runs, kills, and what is left of a query that ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.spark.errors import explain
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import channel, create, publish, wait_until
from tools.harness.processes import below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GO = os.environ.get("PENSTOCK_GO_NSQ", "")
ROUNDS = int(os.environ.get("PENSTOCK_CHANNEL_KILLS", "1"))
EACH = 3000


@pytest.fixture(
    params=[
        "",
        pytest.param(
            str(Path(GO) / "nsqd"),
            marks=pytest.mark.skipif(not GO, reason="PENSTOCK_GO_NSQ names no programs of Go"),
        ),
    ],
    ids=["ours", "go"],
)
def program(request: pytest.FixtureRequest) -> str | None:
    """The nsqd to start, ours if None."""
    found: str | None = request.param or None
    return found


@pytest.fixture
def nsqd(program: str | None) -> Iterator[Daemon]:
    with run_nsqd(program=program) as daemon:
        create(daemon, "t", "c")
        yield daemon


@pytest.fixture
def hasty_nsqd(program: str | None) -> Iterator[Daemon]:
    """What a killed query had in flight comes again soon."""
    with run_nsqd("--msg-timeout=10s", program=program) as daemon:
        create(daemon, "t", "c")
        yield daemon


def options(nsqd: Daemon, folder: Path) -> dict[str, str]:
    return {
        "mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": nsqd.tcp,
        "stagingLocation": str(folder / "staging"),
    }  # fmt: skip


def bodies(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def committed(folder: Path) -> list[tuple[str, bytes, int]]:
    """Id, body and attempts of each row that the sink has committed."""
    files = set()
    for entry in (folder / "out" / "_spark_metadata").glob("[0-9]*"):
        files |= {json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]}
    found: list[tuple[str, bytes, int]] = []
    for file in sorted(files):
        table = pq.read_table(file.removeprefix("file://"))
        columns = [table.column(name).to_pylist() for name in ("id", "body", "attempts")]
        found += zip(*columns, strict=True)
    return found


def available_now(spark: SparkSession, given: dict[str, str], folder: Path) -> None:
    query = (
        spark.readStream.format("nsq").options(**given).load()
        .writeStream.format("parquet").option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(500)


def started(spark: SparkSession, given: dict[str, str], folder: Path) -> StreamingQuery:
    """A query that goes on until it is stopped; tests/spark/channel_query.py runs the same."""
    return (
        spark.readStream.format("nsq").options(**given).load()
        .writeStream.format("parquet").option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint")).start()
    )  # fmt: skip


def test_runs_of_available_now(spark: SparkSession, nsqd: Daemon, tmp_path: Path) -> None:
    given = options(nsqd, tmp_path)
    for run in range(2):
        publish(nsqd, "t", bodies(run * EACH, EACH))
        available_now(spark, given, tmp_path)
        rows = committed(tmp_path)
        assert sorted(body for _, body, _ in rows) == sorted(bodies(0, (run + 1) * EACH))
        assert {attempts for *_, attempts in rows} == {1}
        statistics = channel(nsqd, "t", "c")
        assert (statistics["depth"], statistics["in_flight_count"]) == (0, 0)
    # The last batch of a run is known to be committed by the next.
    assert len(list((tmp_path / "staging").glob("*.arrow"))) < 5


def test_what_cannot_be_done_is_one_sentence(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    batch = spark.read.format("nsq").options(**options(nsqd, tmp_path))
    with pytest.raises(Exception, match="is for streams"):
        batch.load().count()
    (tmp_path / "staging").write_text("a file")
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        available_now(spark, options(nsqd, tmp_path), tmp_path)
    assert explain(failed.value).startswith("stagingLocation cannot be used: ")


def test_a_query_that_is_stopped_gives_back_what_it_has(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    with run_nsqlookupd() as lookupd:
        given = options(nsqd, tmp_path) | {"lookupd_http_address": lookupd.http}
        del given["nsqd_tcp_address"]
        flag = f"--lookupd-tcp-address={lookupd.tcp}"
        with run_nsqd(flag, program=nsqd.program) as known:
            create(known, "t", "c")
            publish(known, "t", bodies(0, EACH))
            query = started(spark, given, tmp_path)
            wait_long(lambda: len(committed(tmp_path)) == EACH, lambda: str(query.lastProgress))
            query.stop()
            wait_until(
                lambda: channel(known, "t", "c")["clients"] in ([], None),
                lambda: str(channel(known, "t", "c")),
            )
            publish(known, "t", [b"later"])
            assert channel(known, "t", "c")["in_flight_count"] == 0


def wait_long(done: Callable[[], bool], what: Callable[[], str]) -> None:
    """``wait_until`` for what a new JVM does first."""
    for _ in range(3000):
        if done():
            return
        time.sleep(0.1)
    raise AssertionError(what())


class Program:
    """A query in a process of its own, which can be killed with all that it has started."""

    def __init__(self, given: dict[str, str], folder: Path) -> None:
        self._folder = folder
        self._given = json.dumps(given)
        self._log = folder / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._before = 0

    def start(self) -> None:
        self._before = self.batches
        command = [sys.executable, "-m", "tests.spark.channel_query", self._given]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder)], stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            for pid in (self._process.pid, *below(self._process.pid)):
                _kill(pid)
            self._process.wait()

    @property
    def batches(self) -> int:
        """The number of batches that are committed."""
        return len([*(self._folder / "checkpoint" / "commits").glob("[0-9]*")])

    def get_on(self) -> None:
        """Wait until it has committed a batch since its start."""
        process = self._process
        assert process is not None
        wait_long(
            lambda: self.batches > self._before or process.poll() is not None,
            lambda: self._log.read_text()[-2000:],
        )
        assert process.poll() is None, self._log.read_text()[-2000:]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_whatever_is_killed_nothing_is_missing(
    spark: SparkSession, hasty_nsqd: Daemon, tmp_path: Path
) -> None:
    nsqd = hasty_nsqd
    program = Program(options(nsqd, tmp_path), tmp_path)
    published = 0
    try:
        for number in range(ROUNDS):
            program.start()
            publish(nsqd, "t", bodies(published, EACH))
            published += EACH
            program.get_on()
            publish(nsqd, "t", bodies(published, EACH))
            published += EACH
            time.sleep(0.3 * (number % 3))  # another moment each time
            program.kill()
    finally:
        program.kill()
    everything = set(bodies(0, published))
    query = started(spark, options(nsqd, tmp_path), tmp_path)
    try:
        # What the killed query had in flight comes again once its time is over.
        wait_long(
            lambda: {body for _, body, _ in committed(tmp_path)} >= everything,
            lambda: f"{len(committed(tmp_path))} rows of {published}; {query.exception()}",
        )
    finally:
        query.stop()
    rows = committed(tmp_path)
    # A message that is there twice was staged twice: delivered again, with another attempt.
    assert set(Counter((id, attempts) for id, _, attempts in rows).values()) == {1}
    assert {body for _, body, _ in rows} == everything


def test_no_row_is_read_by_its_wrong_name(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    given: dict[str, Any] = options(nsqd, tmp_path)
    stream = spark.readStream.format("nsq").options(**given)
    assert stream.load().columns == ["topic", "body", "id", "timestamp", "attempts", "node"]
    assert stream.option("columns", "body,id").load().columns == ["body", "id"]
    query = (
        stream.schema("offset long").load().writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c")).start()
    )  # fmt: skip
    with pytest.raises(Exception, match="has no column offset bigint"):
        query.awaitTermination(500)

"""A stream over a channel of a real nsqd: messages staged in files, and batches that repeat."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import LockedError, StorageError
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.spark.channel import stager, stream
from penstock.spark.channel.channel_settings import COLUMNS, ChannelSettings
from penstock.spark.channel.folder import Folder, StagedFile, read
from penstock.spark.channel.stager import FILED, Pile, Stager, record_batch
from penstock.spark.channel.stream import SPLIT_BYTES, ChannelStreamReader, split
from penstock.spark.errors import LostError, SourceError
from penstock.spark.read.decode import arrow_schema
from penstock.storage.files.disk import OsDisk
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import bodies_in, channel, create, publish, wait_until
from tools.harness.certificates import Certificates
from tools.harness.ports import unused_address


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        create(daemon, "t", "c")
        yield daemon


def options(folder: Path | str, address: str) -> dict[str, str]:
    return {"mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": address,
            "stagingLocation": str(folder)}  # fmt: skip


def settings(folder: Path | str, address: str, **more: str) -> ChannelSettings:
    return ChannelSettings.parse(options(folder, address) | more)


@contextmanager
def staging(folder: Folder, settings: ChannelSettings, least: int = 0) -> Iterator[Stager]:
    folder.open(settings.topic, settings.channel)
    stager = Stager(settings, folder, least)
    try:
        yield stager
    finally:
        stager.stop()
        folder.close()


def staged(folder: Folder) -> list[bytes]:
    batches = [batch for number in list(folder.files) for batch in read(folder.path, number)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def wait_for(nsqd: Daemon, **counts: int) -> None:
    def found() -> dict[str, Any]:
        statistics = channel(nsqd, "t", "c")
        return {name: statistics[name] for name in counts}

    wait_until(lambda: found() == counts, lambda: f"{found()}, wanted {counts}")


def test_messages_are_finished_once_they_are_staged(nsqd: Daemon, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(6000)]
    publish(nsqd, "t", bodies)
    folder = Folder(str(tmp_path))
    with staging(folder, settings(tmp_path, nsqd.tcp)) as stager:
        assert stager.staged(0, wait_s=60)
        wait_for(nsqd, depth=0, in_flight_count=0, timeout_count=0, requeue_count=0)
        assert staged(folder) == bodies
        assert max(file.rows for file in folder.files.values()) <= 2500


def test_a_channel_is_not_quiet_while_messages_are_being_staged(
    nsqd: Daemon, tmp_path: Path
) -> None:
    """A disk that takes long for a file must not end a run of AvailableNow without its rows."""
    begun, go_on = Event(), Event()

    class Slow(Folder):
        def write(self, *given: Any) -> int:
            begun.set()
            go_on.wait(60)
            return super().write(*given)

    publish(nsqd, "t", [b"a"])
    with staging(Slow(str(tmp_path)), settings(tmp_path, nsqd.tcp)) as stager:
        assert begun.wait(60)
        assert stager.quiet_s == 0
        go_on.set()
        assert stager.staged(0, wait_s=60)
        wait_until(lambda: stager.quiet_s > 0, lambda: "never quiet")


def test_numbers_go_on_where_the_checkpoint_is(nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, "t", [b"a"])
    with staging(Folder(str(tmp_path)), settings(tmp_path, nsqd.tcp), 17) as stager:
        assert list(stager.staged(0, wait_s=60)) == [17]
        assert stager.staged(18, wait_s=0) == {}
        now = SYSTEM_CLOCK.wall_ns()
        assert stager.published_before(17, now)
        assert not stager.published_before(17, now - 3600 * 10**9)


def test_a_file_ends_when_it_is_big_enough(nsqd: Daemon, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    publish(nsqd, "t", [b"x" * 100_000] * 40)
    with staging(folder, settings(tmp_path, nsqd.tcp, maxFileBytes="300000")):
        wait_for(nsqd, depth=0, in_flight_count=0)
        assert len(staged(folder)) == 40
        assert max(file.nbytes for file in folder.files.values()) < 1_000_000


@pytest.mark.parametrize(
    "error", [StorageError("x.arrow: no space left on device"), MemoryError("no room for columns")]
)
def test_what_cannot_be_written_ends_the_query_and_costs_no_message(
    nsqd: Daemon, tmp_path: Path, error: Exception
) -> None:
    class Full(Folder):
        def write(self, *given: Any) -> int:
            raise error

    publish(nsqd, "t", [b"a", b"b"])
    with (
        staging(Full(str(tmp_path)), settings(tmp_path, nsqd.tcp)) as stager,
        pytest.raises(SourceError) as failed,
    ):
        stager.staged(0, wait_s=60)
    assert str(failed.value) == (
        f"messages of channel c of topic t cannot be staged: {error}. They were given back to the "
        "channel"
    )
    wait_for(nsqd, depth=2, in_flight_count=0, timeout_count=0)
    assert sorted(bodies_in(nsqd, "t", "c", 2)) == [b"a", b"b"]


def test_nodes_keep_what_there_is_no_room_for(nsqd: Daemon, tmp_path: Path) -> None:
    bodies = [b"%05d" % number + b"x" * 995 for number in range(500)]
    publish(nsqd, "t", bodies)
    folder = Folder(str(tmp_path))
    few = settings(tmp_path, nsqd.tcp, maxStagedBytes="100000", maxInFlight="50")
    with staging(folder, few) as stager:
        wait_until(lambda: folder.nbytes >= 100_000, lambda: f"{folder.nbytes} bytes")
        wait_for(nsqd, in_flight_count=0)
        depth = channel(nsqd, "t", "c")["depth"]
        assert depth >= 300
        found: list[bytes] = []
        while len(found) < len(bodies):
            number = min(stager.staged(0, wait_s=60))
            for batch in read(folder.path, number):
                found += batch.column("body").to_pylist()
            stager.remove_below(number + 1)
            assert folder.nbytes < 300_000
        assert found == bodies
        wait_for(nsqd, depth=0, timeout_count=0)


def test_what_is_not_staged_is_given_back_at_the_end(nsqd: Daemon, tmp_path: Path) -> None:
    class Waiting(Stager):
        def _is_due(self, *_: object, **__: object) -> bool:
            return False

    publish(nsqd, "t", [b"a", b"b"])
    folder = Folder(str(tmp_path))
    folder.open("t", "c")
    stager = Waiting(settings(tmp_path, nsqd.tcp), folder, 0)
    wait_for(nsqd, in_flight_count=2)
    stager.stop()
    wait_for(nsqd, in_flight_count=0, depth=2, requeue_count=2, timeout_count=0)


def test_a_node_that_nobody_reaches_is_named(tmp_path: Path) -> None:
    address = unused_address()
    alone = settings(tmp_path, address, timeout="1")
    with staging(Folder(str(tmp_path)), alone) as stager, pytest.raises(SourceError) as failed:
        stager.staged(0, wait_s=60)
    said = str(failed.value)
    assert said.startswith(f"no node of channel c of topic t can be reached: {address}: ")
    assert said.endswith("(tried for 1 s; option timeout); start it and run the command again")


def test_a_node_that_restarts_is_waited_for(nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, "t", [b"a"])
    folder = Folder(str(tmp_path))
    with staging(folder, settings(tmp_path, nsqd.tcp, timeout="60")) as stager:
        assert stager.staged(0, wait_s=60)
        wait_for(nsqd, in_flight_count=0)
        nsqd.restart()
        publish(nsqd, "t", [b"b"])
        assert stager.staged(1, wait_s=60)
    assert set(staged(folder)) == {b"a", b"b"}


def test_tls(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    with run_nsqd(*files.flags(), "--tls-required=true") as nsqd:
        wrong = settings(tmp_path / "staging", nsqd.tcp, timeout="1", tls_v1="true")
        folder = Folder(str(tmp_path / "staging"))
        with staging(folder, wrong) as stager, pytest.raises(SourceError, match="certificate"):
            stager.staged(0, wait_s=60)
        right = settings(tmp_path / "staging", nsqd.tcp, tls_root_ca_file=str(files.ca))
        config = Config(tls_v1=True, tls_root_ca_file=str(files.ca))
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("t", b"a")
        with staging(Folder(str(tmp_path / "staging")), right) as stager:
            assert stager.staged(0, wait_s=60)


@contextmanager
def piled(nsqd: Daemon, bodies: list[bytes]) -> Iterator[Pile]:
    """A pile of all these, in flight."""
    publish(nsqd, "t", bodies)
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2500) as consumer:
        while pile.rows < len(bodies):
            delivery = consumer.get_delivery(30)
            assert delivery is not None
            pile.add(delivery, now_ns=7 if pile.rows else 3)
        yield pile


def test_a_batch_has_what_a_consumer_sees(nsqd: Daemon) -> None:
    bodies = [b"x" * (number % 7 + 1) for number in range(500)]
    with piled(nsqd, bodies) as pile:
        assert pile.since_ns == 3
        assert pile.nbytes == sum(map(len, bodies)) + 34 * len(bodies)
        deliveries = pile.take()
        messages = [message for each in deliveries for message in each.messages()]
        batch = record_batch(deliveries)
    assert (pile.rows, pile.nbytes) == (0, 0)
    assert tuple(batch.schema.names) == FILED
    assert batch.column("body").to_pylist() == bodies
    assert batch.column("id").to_pylist() == [message.id.decode() for message in messages]
    assert set(batch.column("attempts").to_pylist()) == {1}
    assert set(batch.column("node").to_pylist()) == {nsqd.tcp}
    micros = batch.column("timestamp").cast("int64").to_pylist()
    assert micros == [message.timestamp_ns // 1000 for message in messages]


def test_what_is_given_back_comes_at_once_to_others(nsqd: Daemon) -> None:
    with piled(nsqd, [b"a", b"b"]) as pile:
        pile.give_back()
        wait_for(nsqd, requeue_count=2)


def test_what_a_lost_connection_brought_is_left_out(nsqd: Daemon) -> None:
    publish(nsqd, "t", [b"a"])
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
        delivery = consumer.get_delivery(30)
        assert delivery is not None
        pile.add(delivery, 0)
        nsqd.kill()
        wait_until(lambda: _lost(consumer), lambda: "the connection is still there")
        assert pile.take() == []
        nsqd.start()


def _lost(consumer: Consumer) -> bool:
    consumer.work()
    return not consumer.connections


ALL = ReadAllAvailable()
Offset = dict[str, Any]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stager has all the time to end, after which the folder is free for the next."""
    monkeypatch.setattr(stager, "_STOP_S", 60.0)


class Query:
    """A query that may end and start again, with its checkpoint in ``start``."""

    def __init__(self, nsqd: Daemon, folder: Path, **more: str) -> None:
        self._options = options(folder, nsqd.tcp) | more
        self.reader = self.again()
        self.start = self.reader.initialOffset()

    def again(self, **more: str) -> ChannelStreamReader:
        """The reader of the next process, in which the lock of this one is gone."""
        self.reader = ChannelStreamReader(
            ChannelSettings.parse(self._options | more), ("topic", "body")
        )
        return self.reader

    def plan(self, start: Offset | None = None) -> Offset:
        """The end of the next batch, waited for."""
        start = start or self.start
        found: list[Offset] = []

        def planned() -> bool:
            found.append(self.reader.latestOffset(start, ALL))
            return found[-1] != start

        wait_until(planned, lambda: "nothing is staged")
        return found[-1]

    def rows(self, start: Offset, end: Offset) -> list[bytes]:
        return rows(self.reader, start, end)


def rows(reader: ChannelStreamReader, start: Offset, end: Offset) -> list[bytes]:
    found: list[bytes] = []
    for partition in reader.partitions(start, end):
        task: ChannelStreamReader = pickle.loads(pickle.dumps(reader))
        for batch in task.read(partition):
            assert batch.schema == arrow_schema(("topic", "body"))
            assert set(batch.column("topic").to_pylist()) == {"t"}
            found += batch.column("body").to_pylist()
    return found


@pytest.fixture
def query(nsqd: Daemon, tmp_path: Path) -> Iterator[Query]:
    query = Query(nsqd, tmp_path / "staging")
    yield query
    query.reader.stop()


def test_a_checkpoint_of_the_log_is_refused(tmp_path: Path) -> None:
    reader = ChannelStreamReader(settings(tmp_path / "staging", "127.0.0.1:9"), COLUMNS)
    start = reader.initialOffset()
    of_the_log: Offset = {"group": "g", "offsets": {"t": {"h:4151": {"0": 7}}}}
    said = "the checkpoint has offsets of another source than mode=channel"
    with pytest.raises(SourceError, match=said):
        reader.partitions(start, of_the_log)
    with pytest.raises(SourceError, match=said):
        reader.latestOffset(of_the_log, ALL)
    reader.stop()


def test_a_folder_into_which_a_file_is_being_written_stays_locked(
    nsqd: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, goes_on = threading.Event(), threading.Event()

    class SlowDisk(OsDisk):
        def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
            writing.set()
            goes_on.wait(60)
            super().replace_file(path, *data, sync=sync)

    monkeypatch.setattr(stager, "_STOP_S", 0.01)
    query = Query(nsqd, tmp_path)
    reader = query.reader
    assert reader.latestOffset(query.start, ALL) == query.start
    folder, thread = reader._folder, reader._stager
    assert folder is not None
    assert thread is not None
    folder._disk = SlowDisk()
    publish(nsqd, "t", [b"a"])
    try:
        assert writing.wait(60)
        reader.stop()
        with pytest.raises(LockedError):
            Folder(str(tmp_path)).open("t", "c")
    finally:
        goes_on.set()
    thread._thread.join(60)
    folder.close()
    again = Folder(str(tmp_path))
    again.open("t", "c")
    assert [file.rows for file in again.files.values()] == [1]
    again.close()


def everything(query: Query, count: int) -> tuple[Offset, list[bytes]]:
    """Batches until so many rows are read; the last offset and the rows."""
    at, found = query.start, list[bytes]()
    while len(found) < count:
        end = query.plan(at)
        found += query.rows(at, end)
        at = end
    return at, found


def test_every_message_is_in_one_batch(nsqd: Daemon, query: Query) -> None:
    bodies = [b"%d" % number for number in range(5000)]
    publish(nsqd, "t", bodies)
    at, found = everything(query, len(bodies))
    assert found == bodies
    assert query.reader.latestOffset(at, ALL) == at
    assert query.reader.reportLatestOffset() == at


def test_a_batch_that_is_run_again_has_the_same_rows(
    nsqd: Daemon, query: Query, tmp_path: Path
) -> None:
    publish(nsqd, "t", [b"a", b"b"])
    end = query.plan()
    before = query.rows(query.start, end)
    query.reader.stop()
    publish(nsqd, "t", [b"c"])
    reader = query.again()
    assert rows(reader, query.start, end) == before
    # From then on it is committed, and gone.
    later = query.plan(end)
    assert query.rows(end, later)[-1:] == [b"c"]
    assert not (tmp_path / "staging" / "000000000000.arrow").exists()


def test_files_that_another_query_left_are_read(nsqd: Daemon, query: Query) -> None:
    publish(nsqd, "t", [b"a"])
    query.plan()
    query.reader.stop()
    reader = query.again()
    start = reader.initialOffset()
    assert rows(reader, start, query.plan(start)) == [b"a"]


def test_a_file_that_is_gone_is_named_or_skipped(
    nsqd: Daemon, query: Query, tmp_path: Path
) -> None:
    publish(nsqd, "t", [b"a"])
    end = query.plan()
    (partition,) = query.reader.partitions(query.start, end)
    query.reader.stop()
    path = tmp_path / "staging" / "000000000000.arrow"
    path.unlink()
    with pytest.raises(LostError, match=f"staged file {path} is missing on this machine"):
        list(query.reader.read(partition))
    with pytest.raises(SourceError, match=f"staged file {path} is missing on this machine"):
        query.again().partitions(query.start, end)
    query.reader.stop()
    lenient = query.again(failOnDataLoss="false")
    assert rows(lenient, query.start, end) == []
    assert list(lenient.read(partition)) == []


def test_another_folder_is_noticed(nsqd: Daemon, query: Query, tmp_path: Path) -> None:
    publish(nsqd, "t", [b"a"])
    end = query.plan()
    query.reader.stop()
    shutil.move(tmp_path / "staging", tmp_path / "moved")
    with pytest.raises(SourceError, match="the checkpoint belongs to another stagingLocation"):
        query.again().latestOffset(end, ALL)
    query.reader.stop()
    query.again(failOnDataLoss="false")
    publish(nsqd, "t", [b"b"])
    later = query.plan(end)
    assert later["staging"] != end["staging"]
    assert b"b" in query.rows(end, later)
    query.reader.stop()
    # Moved back, or moved together with the checkpoint, it is the same.
    query.again(stagingLocation=str(tmp_path / "moved"))
    assert query.rows(query.start, end) == [b"a"]


def test_files_of_the_same_numbers_in_another_folder_are_no_part_of_a_batch(
    nsqd: Daemon, query: Query, tmp_path: Path
) -> None:
    publish(nsqd, "t", [b"a"])
    end = query.plan()
    query.reader.stop()
    other = Query(nsqd, tmp_path / "other")
    publish(nsqd, "t", [b"b"])
    of_other = other.plan()
    other.reader.stop()
    assert of_other["file"] == end["file"]
    swapped = query.again(stagingLocation=str(tmp_path / "other"))
    with pytest.raises(SourceError, match="the checkpoint belongs to another stagingLocation"):
        swapped.partitions(query.start, end)
    swapped.stop()
    lenient = query.again(stagingLocation=str(tmp_path / "other"), failOnDataLoss="false")
    assert rows(lenient, query.start, end) == []
    lenient.stop()
    assert rows(query.again(), query.start, end) == [b"a"]


def test_two_queries_in_one_folder_are_refused(query: Query, nsqd: Daemon, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is in use by another query: give each query a folder"):
        Query(nsqd, tmp_path / "staging", timeout="1")


def test_a_run_of_available_now_reads_what_was_there(
    nsqd: Daemon, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUIET_S", 60.0)  # it is what comes late that ends the run
    bodies = [b"%d" % number for number in range(5000)]
    publish(nsqd, "t", bodies)
    query.reader.prepareForTriggerAvailableNow()
    at, found = query.start, list[bytes]()
    while (end := query.reader.latestOffset(at, ALL)) != at:
        found += query.rows(at, end)
        at = end
        publish(nsqd, "t", [b"late"] * 10)
    assert found[: len(bodies)] == bodies
    # What came meanwhile is for the next run, but for what one file had already.
    assert len(found) < len(bodies) + 100


def test_a_run_of_available_now_that_has_ended_takes_no_more(
    nsqd: Daemon, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages in flight to a run that has ended would come a time-out late to the next."""
    publish(nsqd, "t", [b"a"])
    query.reader.prepareForTriggerAvailableNow()
    monkeypatch.setattr(stream, "QUIET_S", 60.0)
    at = query.reader.latestOffset(query.start, ALL)
    assert at != query.start
    monkeypatch.setattr(stream, "QUIET_S", 0.1)  # all that there was has been read
    assert query.reader.latestOffset(at, ALL) == at
    publish(nsqd, "t", [b"b"] * 10)
    assert query.reader.latestOffset(at, ALL) == at
    statistics = channel(nsqd, "t", "c")
    counts = (statistics["depth"], statistics["in_flight_count"], statistics["client_count"])
    assert counts == (10, 0, 0)


def test_limits_count_whole_files() -> None:
    def admitted(**more: str) -> tuple[Any, int]:
        reader = ChannelStreamReader(settings("/none", "h:4150", **more), COLUMNS)
        files = {number: StagedFile(100, 1000) for number in range(5, 10)}
        return reader.getDefaultReadLimit(), reader._admitted(files, 5)

    assert admitted() == (ReadAllAvailable(), 10)
    assert admitted(maxRecordsPerTrigger="250") == (ReadMaxRows(250), 7)
    assert admitted(maxRecordsPerTrigger="1") == (ReadMaxRows(1), 6)
    assert admitted(maxBytesPerTrigger="3000") == (ReadMaxBytes(3000), 8)


def test_splits_are_runs_of_files() -> None:
    files = {number: StagedFile(1, SPLIT_BYTES // 4) for number in range(10)}
    numbers = list(range(10))
    assert split(numbers, files, 1) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(split(numbers, files, 10)) == 10
    assert split([], files, 3) == []


def test_nothing_but_options_goes_to_the_tasks(query: Query) -> None:
    query.reader.latestOffset(query.start, ALL)
    copy = pickle.loads(pickle.dumps(query.reader))
    assert vars(copy) == {"settings": query.reader.settings, "columns": query.reader.columns}


def test_a_query_that_ends_gives_back_what_it_has(nsqd: Daemon, query: Query) -> None:
    query.reader.latestOffset(query.start, ALL)
    publish(nsqd, "t", [b"a"] * 10)
    query.reader.stop()
    wait_for(nsqd, in_flight_count=0)
    staged = Folder(query.reader.settings.staging)
    staged.open("t", "c")
    depth = channel(nsqd, "t", "c")["depth"]
    assert depth + sum(file.rows for file in staged.files.values()) >= 10
    staged.close()


@pytest.mark.parametrize("wait_s", [0, pytest.param(0.01, marks=pytest.mark.nightly), 0.03])
def test_sigterm_gives_back_what_there_is(nsqd: Daemon, tmp_path: Path, wait_s: float) -> None:
    """Spark sends SIGTERM and closes the socket: nothing is left in flight, whatever the moment."""
    program = """
import json, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from penstock.spark.channel import stager
from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.channel.stream import ChannelStreamReader

stager._STOP_S = 60.0
reader = ChannelStreamReader(ChannelSettings.parse(json.loads(sys.argv[1])), ("body",))
at = reader.initialOffset()
try:
    while sys.stdin.readline():
        reader.latestOffset(at, ReadAllAvailable())
        print(flush=True)
finally:
    reader.stop()
"""
    bodies = [b"%d" % number for number in range(5000)]
    command = [sys.executable, "-c", program, json.dumps(options(tmp_path, nsqd.tcp))]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        publish(nsqd, "t", bodies)
        time.sleep(wait_s)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM

    def counts() -> list[int]:
        statistics = channel(nsqd, "t", "c")
        return [statistics[name] for name in ("client_count", "in_flight_count", "depth")]

    wait_until(lambda: counts()[:2] == [0, 0], lambda: str(channel(nsqd, "t", "c")))
    staged = Folder(str(tmp_path))
    staged.open("t", "c")
    rows = sum(file.rows for file in staged.files.values())
    staged.close()
    assert counts()[2] + rows == len(bodies)


def test_columns_are_those_of_the_file_and_the_topic() -> None:
    assert set(arrow_schema(COLUMNS).names) == {*COLUMNS}
    assert arrow_schema(COLUMNS).field("body").type == pa.binary()

"""``penstock.arrow.read`` over a real nsqd, and a real broker behind a name server."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock import arrow
from penstock.core.errors import PenstockError
from penstock.log_api.log_client import LogClient
from penstock.nsq.protocol import encode
from penstock.spark.access import close_connections
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.rocketmq.rocketmq_settings import COLUMNS as ROCKETMQ_COLUMNS
from penstock.spark.source_settings import COLUMNS
from penstock.testing.daemons import Daemon, run_nsqd
from tests.spark.rocketmq_brokers import WAYS, Brokers, run_brokers
from tools.harness.fake_log_server import FakeLogServer

CHUNK = 500


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1", "--retention-time=1h") as daemon:
        yield daemon
    close_connections()


def publish(nsqd: Daemon, topic: str, first: int, last: int) -> None:
    """Numbered messages, each ``CHUNK`` of them of one size and the next of different ones."""
    for start in range(first, last, CHUNK):
        mixed = start // CHUNK % 2
        bodies = [b"%08d" % i + b"x" * (i % 37 * mixed) for i in range(start, start + CHUNK)]
        url = f"http://{nsqd.http}/mpub?topic={topic}&binary=true"
        request = urllib.request.Request(url, data=encode.multi_body(bodies), method="POST")
        urllib.request.urlopen(request, timeout=30).close()


def numbers(reader: pa.RecordBatchReader) -> list[int]:
    return [int(body[:8]) for body in reader.read_all()["body"].to_pylist()]


def test_a_topic_is_read_whole_with_all_columns(nsqd: Daemon) -> None:
    publish(nsqd, "whole", 0, 2000)
    table = arrow.read("whole", nsqd_http_address=nsqd.http).read_all()
    assert table.column_names == list(COLUMNS)
    assert [int(body[:8]) for body in table["body"].to_pylist()] == list(range(2000))
    assert table["offset"].to_pylist() == list(range(2000))
    assert set(table["node"].to_pylist()) == {nsqd.http}
    now = datetime.now(UTC)
    assert all(now - timedelta(minutes=9) < time <= now for time in table["timestamp"].to_pylist())
    frame = arrow.read("whole", nsqd_http_address=nsqd.http, columns=["offset"]).read_pandas()
    assert frame["offset"].sum() == sum(range(2000))
    with LogClient(nsqd.http) as log:
        assert log.offsets("whole").groups == {}


def test_positions_are_offsets_times_or_words(nsqd: Daemon) -> None:
    publish(nsqd, "span", 0, 1000)
    between = datetime.now(UTC)
    publish(nsqd, "span", 1000, 2000)

    def read(start: arrow.Position, end: arrow.Position) -> list[int]:
        return numbers(arrow.read("span", start, end, nsqd_http_address=[nsqd.http]))

    assert read(10, 1700) == list(range(10, 1700))
    assert read(between, "latest") == list(range(1000, 2000))
    assert read("earliest", between) == list(range(1000))
    assert read({"span": {nsqd.http: {"0": 1990}}}, "latest") == list(range(1990, 2000))
    assert read("latest", "latest") == []
    assert read(datetime.now(UTC) + timedelta(days=1), "latest") == []
    assert read(datetime(1969, 1, 1, tzinfo=UTC), 10) == list(range(10))


def test_the_end_is_fixed_by_the_call(nsqd: Daemon) -> None:
    publish(nsqd, "fixed", 0, 500)
    reader = arrow.read("fixed", nsqd_http_address=nsqd.http)
    publish(nsqd, "fixed", 500, 1000)
    assert numbers(reader) == list(range(500))


def test_batches_are_fetched_only_when_they_are_taken() -> None:
    with FakeLogServer() as server:
        for _ in range(50):
            server.queue("t").append([b"x" * 2000] * 50)
        reader = arrow.read("t", nsqd_http_address=server.address, fetchBytes=1)
        assert server.fetches == 0
        first = reader.read_next_batch()
        assert first.num_rows < 100
        assert server.fetches == 1
        assert first.num_rows + sum(batch.num_rows for batch in reader) == 2500
        close_connections()


def test_several_readers_may_be_taken_from_at_once(nsqd: Daemon) -> None:
    publish(nsqd, "shared", 0, 20_000)
    found: list[list[int]] = []

    def take() -> None:
        reader = arrow.read("shared", nsqd_http_address=nsqd.http, fetchBytes=10_000)
        found.append(numbers(reader))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(20_000))] * 4


@pytest.mark.parametrize(
    ("start", "columns", "said"),
    [
        (9999, ("body",), r"offset 9999 of topic bad .* is beyond its end 500"),
        ("soon", ("body",), r"start must be earliest, latest or JSON such as .* not 'soon'"),
        ({"bad": {"typo:1": {"0": 4}}}, ("body",), "start names node typo:1 for topic bad"),
        (datetime(2026, 1, 1), ("body",), r"start=2026-01-01 00:00:00 has no time zone"),
        ("earliest", ("colour",), "columns must be some of topic, .*, reason, not colour"),
        ("earliest", ("queue_offset",), "columns must be some of .*, not queue_offset"),
        ("earliest", (), "columns must be some of .*, not none"),
    ],
)
def test_what_cannot_be_used_is_named_before_anything_is_read(
    nsqd: Daemon, start: arrow.Position, columns: tuple[str, ...], said: str
) -> None:
    publish(nsqd, "bad", 0, 0 if "bad" in topics(nsqd) else 500)
    with pytest.raises(PenstockError, match=said):
        arrow.read("bad", start, columns=columns, nsqd_http_address=nsqd.http)


def topics(nsqd: Daemon) -> list[str]:
    with LogClient(nsqd.http) as log:
        return log.topics()


def test_one_offset_for_several_queues_is_refused(nsqd: Daemon) -> None:
    for topic in ("one", "two"):
        publish(nsqd, topic, 0, 500)
    with pytest.raises(OptionError, match=r"start=3 says too little, as there are 2 queues"):
        arrow.read("one,two", 3, nsqd_http_address=nsqd.http)
    assert len(numbers(arrow.read("one,two", nsqd_http_address=nsqd.http))) == 1000


def test_a_missing_topic_a_silent_node_and_an_unknown_option(nsqd: Daemon) -> None:
    with pytest.raises(SourceError, match=f"topic nope does not exist on node {nsqd.http}"):
        arrow.read("nope", nsqd_http_address=nsqd.http)
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:9 cannot be .*refused"):
        arrow.read("t", nsqd_http_address="127.0.0.1:9", timeout=1)
    with pytest.raises(OptionError, match="knows no option colour"):
        arrow.read("t", nsqd_http_address=nsqd.http, colour="red")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("startingOffsets", "earliest", "options of Spark: give start and end"),
        ("startingTimestamp", "-1h", "options of Spark: give start and end"),
        ("endingTimestamp", "-1h", "options of Spark: give start and end"),
        ("includeOrigin", "true", "name the columns in columns"),
    ],
)
def test_options_of_spark_that_are_arguments_here(option: str, value: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        arrow.read("t", nsqd_http_address="127.0.0.1:9", **{option: value})


def test_a_batch_that_is_lost_in_the_middle_is_an_error_that_names_it() -> None:
    with FakeLogServer() as server:
        for _ in range(3):
            server.queue("t").append([b"x"] * 10)
        reader = arrow.read("t", nsqd_http_address=server.address, fetchBytes=1)
        server.queue("t").drop(1)
        with pytest.raises(SourceError, match=r"offset 10 of topic t .* is missing"):
            reader.read_all()
        options: dict[str, Any] = {"nsqd_http_address": server.address, "failOnDataLoss": False}
        assert len(arrow.read("t", **options).read_all()) == 20
        close_connections()


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with run_brokers() as running:
        yield running
    close_connections()


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_of_rocketmq_is_read_whole_with_all_columns(brokers: Brokers, way: str) -> None:
    topic = f"orders-{way}"
    brokers.make_topic(topic, 2)
    for queue in range(2):
        bodies = [b"%d-%d" % (queue, number) for number in range(300)]
        brokers.send(topic, queue, bodies, KEYS="k1 k2", TAGS="paid", colour="red")
    table = arrow.read(topic, format="rocketmq", **brokers.options(way)).read_all()
    assert table.column_names == list(ROCKETMQ_COLUMNS)
    rows = table.sort_by([("queue", "ascending"), ("queue_offset", "ascending")]).to_pylist()
    assert [row["body"] for row in rows] == [b"%d-%d" % (q, n) for q in (0, 1) for n in range(300)]
    last = rows[-1]
    assert (last["topic"], last["queue"], last["queue_offset"]) == (topic, 1, 299)
    assert (last["broker"], last["keys"], last["tags"]) == (
        brokers.name(way, topic), "k1 k2", "paid",
    )  # fmt: skip
    assert dict(last["properties"])["colour"] == "red"
    assert datetime.now(UTC) - timedelta(minutes=9) < last["store_timestamp"] <= datetime.now(UTC)


def next_millisecond() -> datetime:
    """The time, 2 ms after the call."""
    begun = datetime.now(UTC)
    while (now := datetime.now(UTC)) < begun + timedelta(milliseconds=2):
        pass
    return now


@pytest.mark.parametrize("way", WAYS)
def test_positions_in_queues_of_rocketmq(brokers: Brokers, way: str) -> None:
    topic = f"span-{way}"
    brokers.make_topic(topic, 2)
    brokers.send(topic, 0, [b"early"] * 10)
    brokers.send(topic, 1, [b"early"] * 50)
    between = next_millisecond()
    next_millisecond()  # brokers note whole ones
    brokers.send(topic, 1, [b"late"] * 5)

    def read(start: arrow.Position, end: arrow.Position) -> list[tuple[int, int]]:
        columns, options = ["queue", "queue_offset"], brokers.options(way)
        rows = arrow.read(topic, start, end, format="rocketmq", columns=columns, **options)
        return [(row["queue"], row["queue_offset"]) for row in rows.read_all().to_pylist()]

    name = brokers.name(way, topic)
    wanted = [(0, 8), (0, 9), *((1, offset) for offset in range(40, 50))]
    assert read({topic: {name: {"0": 8, "1": 40}}}, between) == wanted
    assert read(between, "latest") == [(1, offset) for offset in range(50, 55)]
    with pytest.raises(OptionError, match=r"start=3 says too little, as there are 2 queues"):
        read(3, "latest")


def test_errors_of_rocketmqs_topics_name_what_is_wrong(brokers: Brokers) -> None:
    where = brokers.options("namesrv")
    with pytest.raises(SourceError, match="no node with topic nope is known to name server"):
        arrow.read("nope", format="rocketmq", timeout=1, **where)
    with pytest.raises(OptionError, match="format must be nsq or rocketmq, not 'kafka'"):
        arrow.read("t", format="kafka", **where)
    with pytest.raises(OptionError, match=r"columns must be some of .*, queue_offset, not offset"):
        arrow.read("t", format="rocketmq", columns=["offset"], **where)
    with pytest.raises(OptionError, match="knows no option namesrvAddr"):
        arrow.read("t", **where)


def test_a_process_that_is_forked_has_connections_of_its_own() -> None:
    code = (
        "import os, sys; from penstock import arrow;"
        "from penstock.spark.access import Access, client;"
        "ours = client('h:1', Access());"
        "arrow._connections.acquire();"  # another thread is fetching
        "child = os.fork();"
        "child or os._exit("
        "client('h:1', Access()) is ours or not arrow._connections.acquire(timeout=1));"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"
        " or client('h:1', Access()) is not ours)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_neither_spark_nor_java_is_loaded() -> None:
    code = "import sys, penstock.arrow; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

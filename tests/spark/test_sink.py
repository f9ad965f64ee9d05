"""``format("nsq")`` as a sink: a real Spark and real nodes, at least once."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.nsq.client.blocking import Consumer
from penstock.nsq.client.lookup import lookup
from penstock.spark.errors import explain
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tools.harness.certificates import Certificates

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

GO = os.environ.get("PENSTOCK_GO_NSQ", "")
Start = Callable[..., Daemon]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda *flags, **options: stack.enter_context(run_nsqd(*flags, **options))


def written(spark: SparkSession, topic: str, *nodes: Daemon, **options: str) -> list[str]:
    """The bodies of a topic, sorted."""
    addresses = ",".join(node.http for node in nodes)
    source = spark.read.format("nsq").options(topic=topic, nsqd_http_address=addresses, **options)
    return sorted(row.body.decode() for row in source.load().select("body").collect())


def write(frame: DataFrame, *nodes: Daemon, **options: str) -> None:
    given = {"nsqd_http_address": ",".join(node.http for node in nodes), **options}
    frame.write.format("nsq").mode("append").options(**given).save()


def failure(frame: DataFrame, *nodes: Daemon, **options: str) -> str:
    with pytest.raises(Exception, match="Error") as failed:
        write(frame, *nodes, **options)
    return explain(failed.value)


def test_rows_out_are_rows_in(spark: SparkSession, start: Start) -> None:
    nodes = [start(), start()]
    frame = spark.range(0, 50_000, 1, 4).selectExpr(
        "concat('t', id % 3) as topic",
        "concat(cast(id as string), repeat('x', int(id % 100))) as body",
    )
    write(frame, *nodes, requestBytes="100000")
    for topic in ("t0", "t1", "t2"):
        wanted = [row.body for row in frame.where(f"topic = '{topic}'").collect()]
        assert written(spark, topic, *nodes) == sorted(wanted)
    for node in nodes:
        assert len(written(spark, "t1", node)) > 1000


def test_all_types_are_written_as_to_json_writes_them(spark: SparkSession, start: Start) -> None:
    node = start()
    rows = spark.range(3).selectExpr(
        "id", "if(id = 1, null, concat('a \"b\" ü\\n', id)) as text", "id > 0 as flag",
        "cast(id / 10 as double) as d", "cast(id / 10 as float) as f", "1.50 as dec",
        "cast('xyz' as binary) as bin", "date'2026-01-31' as day",
        "timestamp'2026-01-31T12:00:00.250Z' as ts", "timestamp_ntz'2026-01-31T12:00:00' as local",
        "array(id, null) as list", "map('k', id, 'l', null) as pairs", "null as nothing",
        "named_struct('start', timestamp'2026-01-31T12:00:00Z', 'none', null) as inner",
    )  # fmt: skip
    wanted = [row.body for row in rows.selectExpr("to_json(struct(*)) as body").collect()]
    write(rows, node, topic="t")
    assert list(map(json.loads, written(spark, "t", node))) == list(map(json.loads, sorted(wanted)))


def test_a_stream_forwards_a_topic_as_it_is(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    with run_nsqlookupd() as lookupd:
        here, there = start(), start(f"--lookupd-tcp-address={lookupd.tcp}")
        wait_for_node(lookupd, there)
        write(
            spark.range(1000).selectExpr("cast(cast(id as string) as binary) as value"),
            here,
            topic="t",
        )
        query = (
            spark.readStream.format("nsq").option("nsqd_http_address", here.http)
            .options(topic="t", startingOffsets="earliest", maxRecordsPerTrigger="400").load()
            .writeStream.format("nsq").option("lookupd_http_address", lookupd.http)
            .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(500)
        assert [each["numInputRows"] for each in query.recentProgress] == [400, 400, 200]
        assert written(spark, "t", there) == written(spark, "t", here)
        assert len(written(spark, "t", there)) == 1000


def wait_for_node(lookupd: Daemon, node: Daemon) -> None:
    """Until nsqlookupd knows the node."""

    def known() -> bool:
        with urllib.request.urlopen(f"http://{lookupd.http}/nodes", timeout=30) as answer:
            return str(node.http_port).encode() in answer.read()

    wait_until(known, node.log)


def wait_for_topic(lookupd: Daemon, node: Daemon, topic: str) -> None:
    """Until nsqlookupd knows that the node has the topic."""

    def known() -> bool:
        return node.http_port in [each.http_port for each in lookup([lookupd.http], topic, 60.0)]

    wait_until(known, node.log)


def killing(
    pid: int, marker: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step that kills a process after 20,000 rows of a partition, once; the marker is there when
    that is done.
    """
    claimed = marker.with_suffix(".claimed")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen > 20_000 and not claimed.exists():
                with suppress(FileExistsError):  # the other partition has come first
                    claimed.touch(exist_ok=False)
                    os.kill(pid, signal.SIGKILL)
                    marker.touch()
            yield batch

    return rows


def test_a_node_that_is_killed_is_followed_by_the_other(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    one, two = start(), start()
    frame = spark.range(0, 100_000, 1, 2).selectExpr("cast(id as string) as body")
    marker = tmp_path / "killed"
    doomed = frame.mapInArrow(killing(one.pid, marker), "body string")
    write(doomed, one, two, topic="t", requestBytes="50000")
    assert marker.exists()
    one.kill()
    one.start()
    assert set(written(spark, "t", one, two)) == {str(number) for number in range(100_000)}
    assert len(written(spark, "t", two)) > 50_000


def test_what_is_wrong_is_told_in_one_sentence(spark: SparkSession, start: Start) -> None:
    node = start()
    frame = spark.range(0, 100, 1, 1)
    big = frame.selectExpr("if(id = 70, repeat('x', 2000000), 'y') as body")
    assert failure(big, node, topic="t").startswith(
        f"row 70 of partition 0: 2000000 bytes are more than node {node.http} takes (BAD_MESSAGE)"
    )
    bad = frame.selectExpr("'x' as body", "if(id = 5, 'a b', 't') as topic")
    assert failure(bad, node).startswith("row 5 of partition 0: topic name 'a b' is invalid: ")
    late = frame.selectExpr("'x' as body", "3600001 * (id div 50) as defer_ms")
    assert failure(late, node, topic="t") == (
        f"row 50 of partition 0: defer_ms 3600001 is more than node {node.http} takes: raise its "
        "--max-req-timeout, or delay for less; 50 rows of the partition are published, and again "
        "when it is tried again"
    )
    assert failure(frame.selectExpr("id", "'x' as body"), node, topic="t").startswith(
        "format nsq writes no column id; "
    )
    node.kill()
    lost = failure(frame.selectExpr("'x' as body"), node, topic="t", timeout="1")
    assert lost.startswith("rows 0 to 99 of partition 0: no node takes messages of topic t (")
    assert f"{node.http}: connection refused" in lost


def test_a_node_that_takes_tls_only(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    node = start(*files.flags(), "--tls-required=true")
    frame = spark.range(10).selectExpr("cast(id as string) as body")
    assert "takes no plain HTTP" in failure(frame, node, topic="t")
    write(frame, node, topic="t", tls_root_ca_file=str(files.ca))
    found = written(spark, "t", node, tls_root_ca_file=str(files.ca))
    assert found == [str(number) for number in range(10)]


@pytest.mark.skipif(not GO, reason="PENSTOCK_GO_NSQ names no programs of Go")
def test_go_takes_rows_and_delays(spark: SparkSession, start: Start) -> None:
    node = start(program=str(Path(GO) / "nsqd"))
    frame = spark.range(0, 3000, 1, 2).selectExpr(
        "cast(id as string) as body", "if(id < 20, 1500, 0) as defer_ms"
    )
    write(frame, node, topic="t")
    found = []
    with Consumer("t", "c", nsqd_tcp_addresses=[node.tcp]) as consumer:
        for message in consumer:
            found.append(message.body.decode())
            message.finish()
            if len(found) == 3000:
                break
    assert sorted(found, key=int) == [str(number) for number in range(3000)]
    # Delays begin with a channel, so those rows come last.
    assert set(found[-20:]) == {str(number) for number in range(20)}
    big = spark.range(0, 100, 1, 1).selectExpr("if(id = 70, repeat('x', 9000000), 'y') as body")
    assert failure(big, node, topic="t").startswith("row 70 of partition 0: 9000000 bytes are more")

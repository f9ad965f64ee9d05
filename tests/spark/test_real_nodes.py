"""Topics made again, a Go nsqd among ours, TLS: real daemons and a real Spark."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.log_api.log_client import LogClient
from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.protocol import encode
from penstock.spark.errors import explain
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.spark.test_source import Query
from tools.harness.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GO = os.environ.get("PENSTOCK_GO_NSQ", "")


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--broadcast-address=127.0.0.1") as daemon:
        yield daemon


def post(nsqd: Daemon, path: str, body: bytes = b"") -> None:
    url = f"http://{nsqd.http}{path}"
    urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=30).close()


def publish(nsqd: Daemon, count: int, topic: str = "t") -> None:
    bodies = [b"%d" % number for number in range(count)]
    post(nsqd, f"/mpub?topic={topic}&binary=true", encode.multi_body(bodies))


def log_of(nsqd: Daemon) -> str:
    with LogClient(nsqd.http) as log:
        return log.offsets("t").queues[0].log


def test_a_topic_made_again_is_never_taken_for_the_old_one(
    spark: SparkSession, nsqd: Daemon, tmp_path: Path
) -> None:
    publish(nsqd, 1000)
    options = {"topic": "t", "nsqd_http_address": nsqd.http, "group": "g"}
    assert Query(spark, tmp_path, **options).run() == [1000]
    old = log_of(nsqd)
    post(nsqd, "/topic/delete?topic=t")
    publish(nsqd, 5000)

    with pytest.raises(Exception, match="deleted and created again") as failure:
        Query(spark, tmp_path, **options).run()
    assert explain(failure.value) == (
        f"topic t (queue 0) on node {nsqd.http} was deleted and created again: offset 1000 is of "
        f"log {old}, the node has log {log_of(nsqd)} now, and what was not read of {old} is lost. "
        f"Set failOnDataLoss=false to read {log_of(nsqd)} from its start"
    )
    with LogClient(nsqd.http) as log:
        assert log.offsets("t").groups == {}

    lenient = Query(spark, tmp_path, failOnDataLoss="false", **options)
    assert lenient.run() == [5000]
    rows = sorted([*range(1000), *range(5000)])
    assert [offset for _, offset in lenient.rows()] == rows
    # From then on the new log is what the checkpoint is about.
    publish(nsqd, 10)
    assert Query(spark, tmp_path, **options).run() == [10]
    with LogClient(nsqd.http) as log:
        assert log.offsets("t").groups == {"g": {0: 5010}}


@pytest.mark.skipif(not GO, reason="PENSTOCK_GO_NSQ names no programs of Go")
def test_a_cluster_that_moves_from_go_node_by_node(spark: SparkSession, tmp_path: Path) -> None:
    with run_nsqlookupd() as lookupd:
        flags = ("--broadcast-address=127.0.0.1", f"--lookupd-tcp-address={lookupd.tcp}")
        with run_nsqd(*flags) as ours, run_nsqd(*flags, program=str(Path(GO) / "nsqd")) as theirs:
            publish(theirs, 5)
            publish(ours, 10)
            options = {"topic": "t", "lookupd_http_address": lookupd.http}
            with pytest.raises(Exception, match="has no log to read") as failure:
                Query(spark, tmp_path, **options).run()
            assert explain(failure.value).startswith(f"node {theirs.http} has no log to read: ")
            assert "nsq_to_nsq" in explain(failure.value)
            query = Query(spark, tmp_path, skipNodesWithoutLog="true", **options)
            assert query.run() == [10]


def test_a_node_that_takes_tls_only(spark: SparkSession, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    flags = [*files.flags(), "--tls-required=true", "--broadcast-address=127.0.0.1"]
    with run_nsqd(*flags) as nsqd:
        config = Config(tls_v1=True, tls_root_ca_file=str(files.ca))
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("t", b"x")
        source = spark.read.format("nsq").options(topic="t", nsqd_http_address=nsqd.http)
        with pytest.raises(Exception, match="takes no plain HTTP") as refused:
            source.load().count()
        assert explain(refused.value).startswith(f"node {nsqd.http} takes no plain HTTP (--tls-req")
        assert source.option("tls_root_ca_file", str(files.ca)).load().count() == 1

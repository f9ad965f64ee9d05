"""The jobs of NSQ's tools as the pipelines in examples, and those of `init`, over real nodes."""

from __future__ import annotations

import gzip
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli.pipeline.init import template
from penstock.nsq.protocol import encode
from penstock.spark.pipelines import Pipeline
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.programs.spark.http.endpoint import Endpoint
from tests.spark.test_sink import wait_for_topic
from tests.spark.test_triggers import wait_for
from tools.pages.documentation import replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
EVENTS = [b'{"level": "error", "n": 1}', b'{"level": "info", "n": 2}', b"400 9"]


class Cluster:
    """A node that nsqlookupd knows."""

    def __init__(self, lookupd: Daemon, nsqd: Daemon) -> None:
        self.lookupd = lookupd.http
        self.nsqd = nsqd.http

    def publish(self, topic: str, bodies: list[bytes]) -> None:
        url = f"http://{self.nsqd}/mpub?topic={topic}&binary=true"
        request = urllib.request.Request(url, encode.multi_body(bodies), method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def bodies(self, topic: str) -> list[str]:
        url = f"http://{self.nsqd}/topic/peek?topic={topic}&limit=100"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return [message["body"] for message in json.load(answer)["messages"]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd("--broadcast-address=127.0.0.1", f"--lookupd-tcp-address={lookupd.tcp}") as nsqd,
    ):
        cluster = Cluster(lookupd, nsqd)
        cluster.publish("events", EVENTS)
        wait_for_topic(lookupd, nsqd, "events")
        yield cluster


def run(spark: SparkSession, text: str, folder: Path) -> None:
    """Do what is there now."""
    file = folder / "pipeline.toml"
    file.write_text(text.replace('"run/', f'"{folder}/'))
    for query in Pipeline.from_file(file).start(spark, {"availableNow": True}):
        assert query.awaitTermination(500)


def example(name: str, cluster: Cluster) -> str:
    text = (EXAMPLES / name).read_text()
    return replaced(text, dict.fromkeys(("127.0.0.1:4161", "127.0.0.1:5161"), cluster.lookupd))


def test_nsq_to_file(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    run(spark, example("nsq_to_file.toml", cluster), tmp_path)
    (file,) = (tmp_path / "files").glob("date=*/hour=*/*.gz")
    assert gzip.decompress(file.read_bytes()) == b"".join(body + b"\n" for body in EVENTS)


def test_nsq_to_nsq(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    run(spark, example("nsq_to_nsq.toml", cluster), tmp_path)
    assert cluster.bodies("errors") == ['{"level": "error", "n": 1}']


def test_nsq_to_http(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    endpoint = Endpoint()
    try:
        text = example("nsq_to_http.toml", cluster)
        run(spark, text.replace("http://127.0.0.1:8080/events", endpoint.url), tmp_path)
    finally:
        endpoint.close()
    assert endpoint.tries == {body.decode(): 1 for body in EVENTS}
    assert {headers["Content-Type"] for headers in endpoint.headers} == {"application/json"}
    (letter,) = cluster.bodies("events.refused")
    assert json.loads(letter) == {"reason": "status 400", "url": endpoint.url, "body": "400 9"}


def test_files_of_nsq_to_file_go_into_a_topic_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    text = f"""
[source]
format = "text"
path = "run/in"
schema = "value string"
[sink]
topic = "again"
nsqd_http_address = "{cluster.nsqd}"
exactlyOnce = true
"""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.log.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    text += '[run]\ncheckpoint = "run/checkpoint"\n'
    run(spark, text, tmp_path)
    assert cluster.bodies("again") == ["one", "two"]
    (tmp_path / "in" / "two.log").write_bytes(b"three\n")
    run(spark, text, tmp_path)
    assert cluster.bodies("again") == ["one", "two", "three"]


# --- the files that `init` writes -----------------------------------------------------------------


def written(kind: str, cluster: Cluster) -> str:
    return template(kind).replace("127.0.0.1:4151", cluster.nsqd)


def test_a_part_is_forwarded_and_what_does_not_parse_goes_aside(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    large = '{"id": 1, "country": "DE", "total": 100.0}'
    small = '{"id": 2, "country": "DE", "total": 99.0}'
    cluster.publish("orders", [large.encode(), b"broken", small.encode()])
    run(spark, written("forward", cluster), tmp_path)
    assert cluster.bodies("orders_de") == [large]
    (letter,) = cluster.bodies("orders.bad")
    assert json.loads(letter)["body"] == "broken"


def test_a_copy_is_dropped_in_a_later_run_too(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    first, second = ('{"payment_id": "a"}', '{"payment_id": "b"}')
    cluster.publish("payments", [first.encode(), first.encode()])
    run(spark, written("dedupe", cluster), tmp_path)
    cluster.publish("payments", [second.encode(), first.encode()])
    run(spark, written("dedupe", cluster), tmp_path)
    assert cluster.bodies("payments_once") == [first, second]


def test_each_message_is_delivered(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    endpoint = Endpoint()
    try:
        text = written("deliver", cluster).replace("http://127.0.0.1:8080/events", endpoint.url)
        run(spark, text, tmp_path)
    finally:
        endpoint.close()
    assert endpoint.tries == {body.decode(): 1 for body in EVENTS}
    assert len(cluster.bodies("events.refused")) == 1


def test_an_endpoint_that_is_down_holds_the_batch_back_until_the_next_run(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint()
    text = written("deliver", cluster).replace("http://127.0.0.1:8080/events", endpoint.url)
    file = tmp_path / "pipeline.toml"
    file.write_text(text.replace('"run/', f'"{tmp_path}/'))
    asked: list[str] = []
    try:
        with monkeypatch.context() as down:
            down.setattr(endpoint, "answer", lambda body, _: asked.append(body) or 503)
            (query,) = Pipeline.from_file(file).start(spark)
            wait_for(lambda: len(asked) > 3 * len(EVENTS))
            assert query.isActive
            query.stop()
            assert query.exception() is None
        run(spark, text, tmp_path)
    finally:
        endpoint.close()
    # Spark gives a task a moment to end, in which it may post as well: at least once it is.
    assert endpoint.tries.keys() == {body.decode() for body in EVENTS}
    letters = [json.loads(letter) for letter in cluster.bodies("events.refused")]
    assert {(each["body"], each["reason"]) for each in letters} == {("400 9", "status 400")}


def test_an_archive_goes_back_into_a_topic(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    run(spark, written("archive", cluster), tmp_path)
    (file,) = (tmp_path / "lake").glob("topic=events/date=*/hour=*/*.parquet")
    assert file.stat().st_size
    run(spark, written("backfill", cluster), tmp_path)
    assert cluster.bodies("events_again") == [body.decode() for body in EVENTS]

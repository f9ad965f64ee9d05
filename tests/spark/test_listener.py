"""A real pipeline, as nsqd, nsqadmin and Prometheus show it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from penstock.nsq.protocol import encode
from penstock.spark import listener
from penstock.spark.listener import farewell
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.own import group_name
from penstock.testing.daemons import Daemon, run_nsqadmin, run_nsqd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
[source]
topic = "events"
nsqd_http_address = "${NSQD}"
startingOffsets = "earliest"

[parse]
json = "n int not null"

[sql]
query = "select n from input where %s"

[sink]
format = "noop"

[run]
checkpoint = "${FOLDER}/checkpoint"
"""
Found = TypeVar("Found")


def asked(address: str, target: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{target}", timeout=30) as answer:
        body = answer.read()
    return json.loads(body) if body.startswith(b"{") else body.decode()


def until(look: Callable[[], Found]) -> Found:
    """What it finds, as soon as that is true: listeners hear of a batch some time after it."""
    deadline = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def publish(nsqd: Daemon, *bodies: bytes) -> None:
    body = encode.multi_body(list(bodies))
    url = f"http://{nsqd.http}/mpub?topic=events&binary=true"
    urllib.request.urlopen(url, data=body, timeout=30).close()


def run(spark: SparkSession, nsqd: Daemon, folder: Path, condition: str) -> Any:
    file = folder / "counts.toml"
    file.write_text(FILE % condition)
    variables = {"NSQD": nsqd.http, "FOLDER": str(folder)}
    pipeline = Pipeline.from_file(file, variables)
    return pipeline.start(spark, {"processingTime": "200 milliseconds"})[0]


def test_a_pipeline_in_nsqadmin_and_in_the_metrics(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_TIMEOUT_S", 60.0)
    monkeypatch.setattr(listener, "END_S", 60.0)
    with (
        run_nsqd("--broadcast-address=127.0.0.1", "--metrics") as nsqd,
        run_nsqadmin(f"--nsqd-http-address={nsqd.http}", "--history-interval=1s") as admin,
    ):
        publish(nsqd, *[b'{"n": %d}' % number for number in range(499)], b"not JSON")
        query = run(spark, nsqd, tmp_path, "n % 2 = 0")

        early: list[int | None] = []

        def shown(state: str) -> Any:
            found = asked(admin.http, "/api/pipelines")["pipelines"]
            early.extend(each["lag"] for each in found if each["state"] == "starting")
            return [each for each in found if each["state"] == state]

        (running,) = until(lambda: [each for each in shown("running") if each["batches"]])
        known = [each for each in early if each is not None]  # the group is there before a batch
        assert known == sorted(known, reverse=True)
        assert known[:1] == [500]
        assert (running["name"], running["source"], running["sink"]) == (
            "counts", "nsq events", "noop",
        )  # fmt: skip
        assert (running["rows_read"], running["rows_written"], running["rows_bad"]) == (500, 250, 1)
        assert running["read_per_s"] > 0
        assert running["batch_ms"] > 0
        group = group_name("events", str(tmp_path / "checkpoint"), "counts")
        assert running["groups"] == [["events", group]]
        until(lambda: [each["lag"] for each in shown("running")] == [0])
        (reader,) = asked(admin.http, "/api/groups?topic=events")["groups"]
        assert (reader["group"], reader["pipeline"]["name"]) == (group, "counts")
        one = f"/api/pipelines/{running['id']}"
        until(lambda: any(asked(admin.http, one)["history"]["read_per_s"]))
        assert asked(admin.http, one)["sql"] == "select n from input where n % 2 = 0"
        labels = f'{{pipeline="counts",id="{running["id"]}"}}'
        metrics = asked(nsqd.http, "/metrics")
        for line in ("running{} 1", "rows_read_total{} 500", "rows_written_total{} 250",
                     "rows_bad_total{} 1", "lag{} 0", "failed{} 0"):  # fmt: skip
            assert f"nsqd_pipeline_{line}".replace("{}", labels) in metrics
        query.stop()
        farewell(spark)
        until(lambda: shown("stopped"))

        begun = time.time()
        query = run(spark, nsqd, tmp_path, "if(n > 1000, raise_error('too large'), true)")
        publish(nsqd, b'{"n": 5000}')
        (failed,) = until(lambda: shown("failed"))
        assert failed["id"] == running["id"]
        assert (running["restarts"], failed["restarts"]) == (0, 1)
        assert "too large" in failed["error"]
        assert "\n" not in failed["error"]
        assert query.exception() is not None
        assert begun - 1 < failed["error_at"] <= time.time() + 1
        assert f"nsqd_pipeline_failed{labels} 1" in asked(nsqd.http, "/metrics")

"""The progress of a real query, as nsqd shows it."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.nsq.protocol import encode
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.own import group_name
from penstock.testing.daemons import Daemon, run_nsqd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def log_groups(nsqd: Daemon) -> list[dict[str, Any]]:
    url = f"http://{nsqd.http}/stats?format=json&topic=events&include_mem=false"
    with urllib.request.urlopen(url, timeout=30) as answer:
        (topic,) = json.load(answer)["topics"]
    found: list[dict[str, Any]] = topic["log_groups"]
    return found


def test_a_pipeline_tells_its_progress(spark: SparkSession, tmp_path: Path) -> None:
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        url = f"http://{nsqd.http}/mpub?topic=events&binary=true"
        body = encode.multi_body([b"%d" % number for number in range(500)])
        urllib.request.urlopen(url, data=body, timeout=30).close()
        source = {"topic": "events", "nsqd_http_address": nsqd.http}
        checkpoint = str(tmp_path / "checkpoint")
        began = time.time()
        query = archive.start(
            spark, source, str(tmp_path / "lake"), checkpoint, {"availableNow": True}
        )
        assert query.awaitTermination(180)
        for _ in range(1200):  # listeners hear of a batch some time after it
            (group,) = log_groups(nsqd)
            if group["progress"] is not None:
                break
            time.sleep(0.05)
        assert group["group_name"] == group_name("events", checkpoint, "archive")
        assert (group["committed"], group["lag"]) == ({"0": 500}, 0)
        progress = group["progress"]
        assert (progress["query"], progress["batch"], progress["rows"]) == ("archive", 0, 500)
        assert progress["duration_ms"] > 0
        assert progress["rows_per_s"] == 500_000 / progress["duration_ms"]
        assert began <= progress["at"] <= time.time() + 1

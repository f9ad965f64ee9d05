"""A file on a cluster: the whole way of ``penstock pipeline submit``, with a local master."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.fake_log_server import FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
[source]
topic = "t"
nsqd_http_address = "{address}"
startingOffsets = "earliest"
[sql]
query = "select offset, cast(body as string) as text from input"
[sink]
format = "json"
path = "{folder}/out"
[run]
checkpoint = "{folder}/checkpoint"
settings = {{"spark.ui.enabled" = "false"}}
"""


def test_a_file_is_submitted_and_runs_to_its_end(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    server.queue("t").append([b"one", b"two"])
    file = tmp_path / "clicks.toml"
    file.write_text(FILE.format(address=server.address, folder=tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", "penstock.cli.penstock", "pipeline", "submit", str(file),
         "--master", "local[2]", "--available-now"],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    rows = spark.read.json(str(tmp_path / "out")).orderBy("offset").collect()
    assert [(row.offset, row.text) for row in rows] == [(0, "one"), (1, "two")]

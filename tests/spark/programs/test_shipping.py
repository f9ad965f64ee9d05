"""The shipped zip on a small cluster whose Pythons have neither Penstock nor its dependencies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.nsq.client.log import LogClient
from penstock.spark.java import home_for_spark_submit
from penstock.spark.shipping import write_zip
from penstock.testing.daemons import run_nsqd
from tests.environments import python_with, site_packages
from tests.spark.fake_log_server import FakeLogServer

ROWS = 20_000
# All that docs/spark.md asks of an executor, and py4j, which comes with pyspark.
INSTALLED = ("numpy", "pyarrow", "pyspark", "py4j")
PROGRAM = """
import json, os, sys
from importlib.util import find_spec
from pyspark.sql import SparkSession

def look(_):
    import penstock
    others = [name for name in ("msgspec", "xxhash", "pandas") if find_spec(name)]
    return os.path.abspath(penstock.__file__), others

spark = SparkSession.builder.getOrCreate()
options = {"topic": "t", "nsqd_http_address": sys.argv[1], "startingOffsets": "earliest",
           "minPartitions": spark.sparkContext.defaultParallelism}
whole = spark.read.format("nsq").options(**options).load()
query = (
    spark.readStream.format("nsq").options(**options).load().select("offset", "body")
    .writeStream.format("parquet").trigger(availableNow=True)
    .start(path=sys.argv[2] + "/out", checkpointLocation=sys.argv[2] + "/checkpoint")
)
query.awaitTermination()
whole.select("body").write.format("nsq").mode("append").option(
    "nsqd_http_address", sys.argv[3]).save("copy")
print(json.dumps({
    "looks": spark.sparkContext.parallelize(range(2), 2).map(look).collect(),
    "splits": whole.rdd.getNumPartitions(),
    "batch": sorted((row.offset, row.body.decode()) for row in whole.collect()),
    "stream": sorted((row.offset, row.body.decode())
                     for row in spark.read.parquet(sys.argv[2] + "/out").collect()),
}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="starts Spark's workers by shell scripts")
def test_executors_need_the_zip_and_three_packages(tmp_path: Path, server: FakeLogServer) -> None:
    bodies = [f"{number:07d}" for number in range(ROWS)]
    for first in range(0, ROWS, 500):
        server.queue("t").append([body.encode() for body in bodies[first : first + 500]])
    shipped = write_zip(tmp_path)
    python = python_with(tmp_path / "bare", *INSTALLED)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    site = site_packages(tmp_path / "bare")

    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        ended = subprocess.run(
            [
                site / "pyspark/bin/spark-submit", "--master", "local-cluster[2,1,1024]",
                "--py-files", shipped, "--conf", "spark.driver.host=127.0.0.1",
                "--conf", "spark.ui.enabled=false", program, server.address, tmp_path, nsqd.http,
            ],
            cwd=tmp_path, env=environment(python, shipped), capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        written = log.offsets("copy").queues[0].end if not ended.returncode else 0

    # spark-submit joins what the program writes to both of its outputs.
    assert ended.returncode == 0, ended.stdout
    found = json.loads(ended.stdout.splitlines()[-1])
    for origin, others in found["looks"]:
        assert Path(origin).is_relative_to(site / "pyspark/work")
        assert others == []
    wanted = [[offset, body] for offset, body in enumerate(bodies)]
    assert found["splits"] == 2
    assert found["batch"] == wanted
    assert found["stream"] == wanted
    assert written == ROWS
    logs = [path.read_text() for path in (site / "pyspark/work").rglob("stderr")]
    assert any("checksums of batches are not verified" in log for log in logs)


def environment(python: Path, shipped: Path) -> dict[str, str]:
    ours = {
        "PYTHONPATH": str(shipped),  # for the processes beside the driver, see docs/spark.md
        "JAVA_HOME": str(home_for_spark_submit()),
        "PYSPARK_PYTHON": str(python),
    }
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | ours

"""A file on a cluster: the whole way of ``penstock pipeline submit``, to a real standalone one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.log_api.log_client import LogClient
from penstock.testing.daemons import run_nsqd
from tests.spark.test_cluster import (
    EXECUTORS_NEED,
    changed,
    environment,
    page_command,
    pipeline,
    with_flag,
)
from tools.harness.environments import python_with, site_packages
from tools.harness.fake_log_server import FakeLogServer
from tools.harness.ports import unused_address
from tools.harness.processes import below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts Spark by shell scripts")

START_S_MAX = 300
BODIES = [f"{number:07d}".encode() for number in range(20_000)]
# Does more on the cluster than the pipeline, which it runs in the end.
PROGRAM = """
import json, os, sys
from importlib.util import find_spec
from pyspark.sql import SparkSession
from penstock.spark.pipelines import submitted

def look(_):
    import penstock
    others = [name for name in ("msgspec", "xxhash", "pandas") if find_spec(name)]
    return os.path.abspath(penstock.__file__), others

spark = SparkSession.builder.getOrCreate()
options = {"topic": "t", "nsqd_http_address": os.environ["SOURCE"], "startingOffsets": "earliest",
           "minPartitions": spark.sparkContext.defaultParallelism}
whole = spark.read.format("nsq").options(**options).load()
whole.select("body").write.format("nsq").mode("append").option(
    "nsqd_http_address", os.environ["SINK"]).save("copy")
print(json.dumps({
    "driver": look(0),
    "looks": spark.sparkContext.parallelize(range(2), 2).map(look).collect(),
    "splits": whole.rdd.getNumPartitions(),
    "batch": sorted((row.offset, row.body.decode()) for row in whole.collect()),
}))
submitted.main()
"""
# A spark-submit of a Python that has no Penstock; PYTHONPATH is for the processes beside the
# driver, see docs/spark.md.
SPARK_SUBMIT = """#!/bin/bash
words=()
for word; do
  case "$word" in
    */submitted.py) word="{program}" ;;
    *.zip) export PYTHONPATH="$word" ;;
  esac
  words+=("$word")
done
unset SPARK_HOME
PYSPARK_DRIVER_PYTHON="{python}" exec "{site}/pyspark/bin/spark-submit" "${{words[@]}}"
"""


@contextmanager
def started(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Spark's, killed at the end with all below it."""
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env=environment(), cwd=log.parent)
    try:
        yield process
    finally:
        for pid in (process.pid, *below(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def wait_until_listens(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + START_S_MAX
    while True:
        with suppress(OSError), socket.create_connection((host, int(port))):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and a worker, by the page's commands: the address of the master."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    address = unused_address()
    host, _, port = address.partition(":")
    here = {"spark-class": str(program), "10.0.0.1": host, "7077": port}
    first = changed(page_command("org.apache.spark.deploy.master.Master"), here)
    second = changed(page_command("org.apache.spark.deploy.worker.Worker"), here)
    log = tmp_path / "master.log"
    with started([*first, "--webui-port", "0"], log) as process:
        wait_until_listens(process, address, log)
        own = ["--host", host, "--webui-port", "0", "--work-dir", str(tmp_path / "work")]
        with started([*second[:-1], *own, second[-1]], tmp_path / "worker.log"):
            yield second[-1]


def spark_home(folder: Path, python: Path) -> Path:
    """A SPARK_HOME whose spark-submit runs the program in this Python."""
    program, script = folder / "program.py", folder / "home" / "bin" / "spark-submit"
    program.write_text(PROGRAM)
    script.parent.mkdir(parents=True)
    site = site_packages(python.parents[1])
    script.write_text(SPARK_SUBMIT.format(program=program, python=python, site=site))
    script.chmod(0o755)
    return folder / "home"


def found_by_program(said: str) -> dict[str, Any]:
    (line,) = (line for line in said.splitlines() if line.startswith('{"driver"'))
    found: dict[str, Any] = json.loads(line)
    return found


def test_standalone_driver_and_executors_with_the_zip_alone(
    spark: SparkSession, master: str, server: FakeLogServer, tmp_path: Path
) -> None:
    """The page's command, in Pythons that have neither Penstock nor what it needs elsewhere."""
    for first in range(0, len(BODIES), 500):
        server.queue("t").append(BODIES[first : first + 500])
    bare = python_with(tmp_path / "bare", *EXECUTORS_NEED)
    assert not (site_packages(tmp_path / "bare") / "penstock").exists()
    words = page_command("submit", "spark://10.0.0.1:7077")
    places = {
        "metrics.toml": str(pipeline(tmp_path, server.address)), "spark://10.0.0.1:7077": master,
        "/usr/bin/python3": str(bare),
    }  # fmt: skip
    with run_nsqd() as nsqd, LogClient(nsqd.http) as log:
        own = {"SPARK_HOME": str(spark_home(tmp_path, bare)), "SOURCE": server.address}
        ended = subprocess.run(
            with_flag("--available-now", changed(words, places)), cwd=tmp_path,
            env=environment() | own | {"SINK": nsqd.http},
            capture_output=True, text=True, timeout=580,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        assert log.offsets("copy").queues[0].end == len(BODIES)
    found = found_by_program(ended.stdout)
    assert found["driver"][1] == []
    for origin, others in found["looks"]:
        assert Path(origin).is_relative_to(tmp_path / "work")
        assert others == []
    assert found["splits"] == 2
    assert found["batch"] == [[offset, body.decode()] for offset, body in enumerate(BODIES)]
    rows = spark.read.json(str(tmp_path / "out")).orderBy("offset").collect()
    assert [(row.offset, row.text.encode()) for row in rows] == list(enumerate(BODIES))
    logs = [path.read_text() for path in (tmp_path / "work").rglob("stderr")]
    assert any("checksums of batches are not verified" in log for log in logs)

"""The Spark child of ``demo`` and ``up`` as a process, ended before Spark has started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.live import archive_file
from tools.harness.processes import left_over, marked_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

JOB = [sys.executable, "-m", "penstock.cli.live.archive_job"]


def test_sigterm_while_spark_starts_leaves_no_java_behind(tmp_path: Path) -> None:
    environment = marked_environment()
    archive_file.write(tmp_path, "flights", "127.0.0.1:9")
    with subprocess.Popen(
        [*JOB, str(tmp_path), "127.0.0.1:9"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["doing"] == "starting Java and Spark"
        process.terminate()
        assert process.wait(120) == 0
    assert left_over(environment, 60) == {}

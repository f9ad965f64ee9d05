"""``session`` and ``stop``: the settings, one JVM a process, and its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.session import session, settings_for
from tools.harness.processes import left_over, marked_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWICE = """
import sys
from penstock.spark.session import session, stop
for partitions in ("3", "5"):
    with open(sys.argv[1], "ab") as log:
        spark = session("local[1]", settings={"spark.sql.shuffle.partitions": partitions}, log=log)
    print(spark.conf.get("spark.sql.shuffle.partitions"), spark.range(7).count(), flush=True)
    stop(spark)
"""


def test_a_running_session_is_taken(spark: SparkSession) -> None:
    assert session("local[7]") is spark
    assert spark.sparkContext.master == "local[2,2]"


def test_settings_and_what_overrides_them(spark: SparkSession) -> None:
    ours = settings_for("local[2,2]")
    assert ours["spark.ui.enabled"] == "false"
    for key in ("spark.app.name", "spark.sql.session.timeZone", "spark.pyspark.python"):
        assert spark.conf.get(key) == ours[key]
    assert ours["spark.sql.shuffle.partitions"] == "4"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_another_session_may_follow_and_no_java_stays(tmp_path: Path) -> None:
    environment = marked_environment()
    ended = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path / "log")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["3", "7", "5", "7"]
    assert left_over(environment, 60) == {}

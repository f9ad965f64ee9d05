"""The command line of spark-submit."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from penstock.cli.pipeline.submit import (
    Submission,
    command,
    environment,
    run_submit,
    spark_submit,
)
from penstock.core.errors import PenstockError
from penstock.spark.pipelines import Pipeline, submitted

FILE = """
[pipeline]
name = "clicks"
[source]
topic = "t"
nsqd_http_address = "h:4151"
[sink]
format = "delta"
path = "s3a://lake"
[run]
packages = ["a:b:1", "c:d:2"]
settings = {"spark.executor.memory" = "2g"}
"""


def test_a_dry_run_prints_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(FILE)
    order = Submission(file, "yarn", "cluster", True, ("--num-executors", "4"))
    run_submit(order, dry_run=True)
    line = shlex.split(capsys.readouterr().out)
    zip_ = line[line.index("--py-files") + 1]
    assert Path(zip_).exists()
    assert line == [
        "spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "clicks",
        "--py-files", zip_, "--files", str(file), "--packages", "a:b:1,c:d:2",
        "--conf", "spark.executor.memory=2g", "--num-executors", "4",
        str(submitted.__file__), str(file), "--available-now",
    ]  # fmt: skip


def test_the_program_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(PenstockError, match=f"^SPARK_HOME is {tmp_path}, where no bin/"):
        spark_submit()
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.touch(0o755)
    assert spark_submit() == str(program)
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PATH", "")
    assert Path(spark_submit()).parts[-3:] == ("pyspark", "bin", "spark-submit")


def test_a_driver_here_gets_this_python_if_none_is_chosen() -> None:
    here = Submission(Path("f.toml"), "yarn")
    assert environment(here, {"JAVA_HOME": "/java"})["PYSPARK_DRIVER_PYTHON"] == sys.executable
    given = {"JAVA_HOME": "/java", "PYSPARK_DRIVER_PYTHON": "/p"}
    assert environment(here, given) == given


def test_a_driver_elsewhere_has_its_own_python(tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(FILE)
    order = Submission(file, "k8s://https://h:6443", "cluster")
    zip_ = tmp_path / "p.zip"
    assert environment(order, {"JAVA_HOME": "/java"}) == {"JAVA_HOME": "/java"}
    line = command(order, Pipeline.from_file(file), zip_, "spark-submit")
    assert "spark.kubernetes.driverEnv.PYTHONPATH=p.zip" in line

"""The end of a session whose JVM is gone already."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from penstock.cli.live.pipeline_run import PipelineRun
from penstock.spark import session
from penstock.spark.pipelines import archive

GONE = [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")]


class Dead:
    """A query or a session whose JVM does not answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def stop(self) -> None:
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)
        raise self.error


class FakeGateway:
    """Our side of the JVM's process."""

    def __init__(self) -> None:
        self.closed = False

    def close(self, timeout_s: float) -> None:
        self.closed = timeout_s > 0


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    gateway = FakeGateway()
    monkeypatch.setattr(session, "_jvm", gateway)
    for name in ("_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    return gateway


@pytest.mark.parametrize("error", GONE)
@pytest.mark.filterwarnings("error")
def test_a_session_whose_java_is_gone_is_cleared_away(gateway: FakeGateway, error: Any) -> None:
    dead: Any = Dead(error)
    session.stop(dead)
    assert gateway.closed
    assert session._jvm is None
    assert SparkContext._active_spark_context is None


@pytest.mark.parametrize("error", GONE)
@pytest.mark.filterwarnings("ignore:Unable to cleanly")
def test_a_run_whose_java_is_gone_stops(gateway: FakeGateway, error: Any, tmp_path: Path) -> None:
    pipeline = archive.pipeline({"topic": "t"}, str(tmp_path), str(tmp_path))
    run: Any = PipelineRun(pipeline, tmp_path / "log")
    run._queries, run._spark = [Dead(error)], Dead(error)
    run.stop()
    assert gateway.closed


def test_errors_that_are_raised_are_not_logged_too(capsys: pytest.CaptureFixture[str]) -> None:
    from pyspark.logger import PySparkLogger

    name = "SQLQueryContextLogger"
    logger = PySparkLogger.getLogger(name)
    try:
        session.say_errors_once()
        PySparkLogger.getLogger(name).exception("wrong column", file="f", line="1")
    finally:
        logger.disabled = PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = False
    assert capsys.readouterr().err == ""


def test_secrets_are_no_part_of_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, str] = {}
    monkeypatch.setattr("penstock.spark.java.find_java", lambda: None)
    monkeypatch.setattr("penstock.spark.jvm.launch", lambda *given: told.update(given[2]))
    monkeypatch.setattr("penstock.spark.jvm.announced", nullcontext)
    monkeypatch.setattr(session, "_jvm", None)
    builder: Any = SimpleNamespace(getOrCreate=lambda: None)
    secrets = {"spark.hadoop.fs.s3a.access.key": "AKIA", "spark.hadoop.fs.s3a.secret.key": "s3cret"}
    session._on_own_jvm(builder, {"spark.master": "local"} | secrets, None)
    assert told == {"spark.master": "local"}

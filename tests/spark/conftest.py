"""One Spark for all of these tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tools.harness.fake_log_server import FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def plain_logs() -> None:
    """Keep pytest's handler of logs as it is; PySpark's loggers set the format of any they get."""
    from pyspark.logger.logger import PySparkLogger

    logger: Any = PySparkLogger
    logger.addHandler = logging.Logger.addHandler


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from penstock.spark.session import session, stop

    folder = tmp_path_factory.mktemp("spark")
    with (folder / "spark.log").open("wb") as log:
        running = session(
            "local[2,2]",
            settings={
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.sql.shuffle.partitions": "2",
            },
            log=log,
        )
    yield running
    stop(running)


@pytest.fixture
def lent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The one Spark in the place of those that commands start and end: each takes ten seconds.

    The first look of commands at nodes waits as long as a busy machine takes to answer.
    """
    monkeypatch.setattr("penstock.cli.pipeline.run_command._PREFLIGHT_TIMEOUT_S", 60)
    monkeypatch.setattr("penstock.spark.session.session", lambda *_, **__: spark)
    monkeypatch.setattr("penstock.spark.session.stop", lambda _: None)
    return spark


@pytest.fixture
def penstock(lent: SparkSession) -> Callable[..., object]:
    """The command of this name, given its words, in this process and over the one Spark."""
    from penstock.cli.penstock import app

    return lambda *words: app([str(word) for word in words], result_action="return_value")


@pytest.fixture
def server() -> Iterator[FakeLogServer]:
    with FakeLogServer() as server:
        yield server

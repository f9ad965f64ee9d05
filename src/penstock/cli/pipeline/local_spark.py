"""A local Spark for commands that look at pipelines and run none: quiet, small, soon gone."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.spark.pipelines import Pipeline
from penstock.spark.requirements import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PACKAGES: Final = "spark.jars.packages"


@contextmanager
def local_spark(pipelines: Sequence[Pipeline] = ()) -> Iterator[SparkSession]:
    """A session with what these pipelines need; its log and its files go with it.

    Raises PenstockError where Spark cannot start.
    """
    require_spark()
    from penstock.spark.session import say_errors_once, session, stop

    settings = _settings(pipelines)
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as folder:
        settings |= {
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.shuffle.partitions": "1",
        }
        with Path(folder, "spark.log").open("ab") as log, _said(_wait_for(settings)):
            spark = session("local[*]", settings=settings, log=log)
        say_errors_once()
        try:
            yield spark
        finally:
            stop(spark)


def _wait_for(settings: Mapping[str, str]) -> str:
    """A line about the first seconds of a command."""
    packages = settings.get(_PACKAGES)
    more = f", which fetches {packages} the first time" if packages else " (about 10 s)"
    return f"starting Java and Spark{more} ..."


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Say on a terminal what is waited for, until it is there."""
    if not sys.stderr.isatty():
        yield
        return
    print(what, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _settings(pipelines: Sequence[Pipeline]) -> dict[str, str]:
    """The settings of all pipelines: the packages of each, and of others the last one's."""
    settings = {key: value for each in pipelines for key, value in each.settings.items()}
    given = [each.settings[_PACKAGES] for each in pipelines if _PACKAGES in each.settings]
    packages = dict.fromkeys(package for each in given for package in each.split(","))
    return settings | ({_PACKAGES: ",".join(packages)} if packages else {})

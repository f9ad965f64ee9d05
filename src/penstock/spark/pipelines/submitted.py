"""Program for spark-submit: runs a pipeline's file in the session that spark-submit configures.

``penstock pipeline submit`` writes the whole command::

    spark-submit --py-files penstock.zip --files metrics.toml submitted.py metrics.toml
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.pipelines import Pipeline, own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until the queries end; one that fails ends all."""
    from pyspark.sql import SparkSession

    from penstock.spark.listener import farewell

    parser = argparse.ArgumentParser(description="Run a pipeline's file.")
    parser.add_argument("file")
    parser.add_argument("--available-now", action="store_true")
    given = parser.parse_args(arguments)
    pipeline = Pipeline.from_file(shipped(given.file))
    spark = SparkSession.builder.appName(pipeline.spec.name).getOrCreate()
    try:
        with own.alone(pipeline.spec.sink):
            _run(pipeline, spark, available_now=given.available_now)
    finally:
        farewell(spark)


def _run(pipeline: Pipeline, spark: SparkSession, *, available_now: bool) -> None:
    trigger = {"availableNow": True} if available_now else None
    for query in pipeline.start(spark, trigger):
        if available_now:
            query.awaitTermination()
    if not available_now:
        spark.streams.awaitAnyTermination()


def shipped(file: str) -> Path:
    """The file where it is: at its path, or beside the driver, where ``--files`` puts it."""
    from pyspark import SparkFiles

    here = Path(file)
    if here.exists():
        return here
    beside = Path(here.name)
    return beside if beside.exists() else Path(SparkFiles.get(here.name))


if __name__ == "__main__":
    main()

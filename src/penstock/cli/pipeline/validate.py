"""``penstock pipeline validate``: keys and options first, then what Spark's analyser says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.pipeline.local_spark import local_spark
from penstock.core.errors import PenstockError
from penstock.spark.errors import explain
from penstock.spark.pipelines import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_validate(files: Sequence[Path], *, with_spark: bool) -> None:
    """Print a line for each pipeline that is right, and end with 1 if one is not.

    Raises PenstockError where Spark does not start.
    """
    pipelines, wrong = [], 0
    for file in files:
        try:
            pipelines.append((file, Pipeline.from_file(file)))
        except PenstockError as error:
            wrong += 1
            print(f"penstock: {error}", file=sys.stderr)
    if with_spark and pipelines:
        with local_spark([each for _, each in pipelines]) as spark:
            wrong += sum(not _is_right(spark, file, each) for file, each in pipelines)
    else:
        for file, each in pipelines:
            print(f"{file}: keys and options of {each.spec.name} are right")
    if wrong:
        sys.exit(1)


def _is_right(spark: SparkSession, file: Path, pipeline: Pipeline) -> bool:
    try:
        columns = pipeline.check(spark).schema.simpleString()
    except Exception as error:  # Spark's own, which have no common root
        print(f"penstock: {file}: {explain(error)}", file=sys.stderr)
        return False
    spec = pipeline.spec
    print(f"{file}: {spec.name} reads {spec.source} and writes {spec.sink}: {columns}")
    return True

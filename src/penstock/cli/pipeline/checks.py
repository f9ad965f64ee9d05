"""``penstock pipeline validate`` and ``penstock pipeline test``: pipelines that move no message."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.pipeline.local_spark import local_spark
from penstock.core.errors import PenstockError
from penstock.spark.errors import explain
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.cases import run_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_validate(files: Sequence[Path], *, with_spark: bool) -> None:
    """Print a line for each pipeline that is right, and end with 1 if one is not.

    Keys and options come first, then what Spark's analyser says.

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


def run_tests(files: Sequence[Path]) -> None:
    """Run the [[tests]] of pipelines on a local Spark, and end with 1 if one failed.

    A line for each test, and differences below it.

    Raises PenstockError for a file that cannot be used, and where Spark does not start.
    """
    pipelines = [(file, Pipeline.from_file(file)) for file in files]
    for file, each in pipelines:
        if not each.spec.tests:
            print(f"{file}: no [[tests]]")
    wanted = [each for _, each in pipelines if each.spec.tests]
    if not wanted:
        return
    passed = failed = 0
    with local_spark(wanted) as spark:
        for pipeline in wanted:
            for case in pipeline.spec.tests:
                try:
                    lines = [
                        line for each in run_case(pipeline, spark, case) for line in each.lines()
                    ]
                except Exception as error:  # Spark's own, which have no common root
                    lines = [explain(error)]
                passed, failed = passed + (not lines), failed + bool(lines)
                print(f"{'FAILED' if lines else 'passed'}  {case.place}: {case.name}")
                for line in lines:
                    print(f"    {line}")
    print(f"{passed} passed, {failed} failed")
    if failed:
        sys.exit(1)

"""``penstock pipeline test``: the [[tests]] of pipelines on a local Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.pipeline.local_spark import local_spark
from penstock.spark.errors import explain
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.cases import run_case


def run_tests(files: Sequence[Path]) -> None:
    """Print a line for each test, differences below it, and end with 1 if one failed.

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

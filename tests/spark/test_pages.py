"""Files and SQL on the pages about pipelines, before Spark's analyser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.cases import run_case
from tests.pages import DOCS, blocks, completed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))]


def pipeline(text: str, folder: Path) -> Pipeline:
    """The pipeline of a block; folders that it reads are there, and what it leaves out."""
    (folder / "source").mkdir(exist_ok=True)
    text = re.sub(r'(?m)^path = "run/.*"', f'path = "{folder}/source"', text)
    file = folder / "pipeline.toml"
    file.write_text(completed(text))
    return Pipeline.from_file(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_pass_their_tests_and_the_analyser(
    spark: SparkSession, page: Path, tmp_path: Path
) -> None:
    for text in blocks(page, "toml"):
        made = pipeline(text, tmp_path)
        made.check(spark)
        for case in made.spec.tests:
            assert [each.lines() for each in run_case(made, spark, case)] == [], case.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_statements_between_the_lines_fit_the_file_above(
    spark: SparkSession, page: Path, tmp_path: Path
) -> None:
    first = blocks(page, "toml")[0]
    prose = re.sub(r"(?s)```.*?```", "", page.read_text())
    for statement in re.findall(r"(?s)`(select [^`]+ from input[^`]*)`", prose):
        text = re.sub(r'(?s)query = (""".*?"""|"[^"]*")', f'query = """{statement}"""', first)
        assert statement in text
        pipeline(text, tmp_path).check(spark)

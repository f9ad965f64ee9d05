"""The pages about pipelines: their commands are ours, their files those that ``init`` writes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from penstock.cli.penstock import app
from penstock.cli.pipeline.init import template
from penstock.spark.pipelines import Pipeline
from tools.pages.documentation import DOCS, ROOT, blocks, commands, completed

KINDS = ("archive", "metrics", "forward", "deliver", "dedupe", "backfill")
PAGES = [DOCS / "pipelines.md", DOCS / "cluster.md", *sorted((DOCS / "pipelines").glob("*.md"))]
OTHERS = {"export", "spark-class", "spark-submit"}
"""Commands of others; tests/spark/nodes/test_cluster.py runs those."""


def test_each_kind_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "pipelines").glob("*.md")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_shows_the_file_that_init_writes(kind: str) -> None:
    page = DOCS / "pipelines" / f"{kind}.md"
    assert blocks(page, "toml")[0] == template(kind)
    assert commands(page)[0] == ["penstock", "pipeline", "init", kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_those_that_there_are(page: Path) -> None:
    found = commands(page)
    assert found, "a page says how to run it"
    for words in found:
        if words[0] == "penstock":
            app.parse_args(words[1:], exit_on_error=False, print_error=False)
        else:
            assert words[0] in OTHERS, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_have_right_keys_and_options(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "toml"):
        file = tmp_path / "pipeline.toml"
        file.write_text(completed(text))
        Pipeline.from_file(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_is_python(page: Path) -> None:
    for text in blocks(page, "python"):
        ast.parse(text)


# --- the same job in other tools' files -----------------------------------------------------------

OTHER_TOOLS = {
    "Redpanda Connect": ("redpanda-connect.yaml",),
    "Vector": ("vector.toml",),
    "Spark's Declarative Pipelines": ("declarative.py", "spark-pipeline.yml"),
}


def size(text: str) -> str:
    text = re.sub(r"(^|\s)#.*", "", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{len(lines)} lines, {len(text.split())} words"


def sizes(text: str) -> str:
    """The cells of the table for a tool: its pipeline, its tests."""
    found = re.split(r"^(?=\[\[tests\]\]$|tests:$)", text, maxsplit=1, flags=re.MULTILINE)
    return " | ".join(map(size, found))


@pytest.mark.parametrize("tool", OTHER_TOOLS)
def test_the_table_counts_the_files_of_another_tool(tool: str) -> None:
    folder = ROOT / "tests" / "fixtures" / "same_job"
    text = "".join((folder / name).read_text() for name in OTHER_TOOLS[tool])
    assert f"| {tool} | {sizes(text)} |" in (DOCS / "pipelines.md").read_text()


def test_the_table_counts_our_file() -> None:
    row = rf"\| Penstock \(.*\) \| {re.escape(sizes(template('forward')))} \|"
    assert re.search(row, (DOCS / "pipelines.md").read_text())

"""``penstock pipeline``: commands as they are typed, files to begin with, pages, SQL."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

import pytest

from penstock.cli.penstock import app, main
from penstock.cli.pipeline import run_command, sql, submit
from penstock.cli.pipeline.checks import run_tests, run_validate
from penstock.cli.pipeline.init import template, write_file
from penstock.cli.pipeline.sql import _Shell, listed, statements, views
from penstock.core.errors import PenstockError
from penstock.spark import requirements
from penstock.spark.pipelines import Pipeline, PipelineFileError
from tools.pages.documentation import DOCS, ROOT, blocks, commands, completed

FILE = """
[source]
topic = "t"
nsqd_http_address = "127.0.0.1:4151"
[sink]
format = "console"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_run_with_its_own_pace_or_the_flags(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, object]] = []
    monkeypatch.setattr(
        run_command,
        "run_pipeline",
        lambda pipeline, trigger: ran.append((pipeline.spec.name, trigger)),
    )
    for flags in ([], ["--available-now"], ["--every", "2s"]):
        app(["pipeline", "run", str(file), *flags], result_action="return_value")
    assert ran == [
        ("clicks", None),
        ("clicks", {"availableNow": True}),
        ("clicks", {"processingTime": "2000 milliseconds"}),
    ]


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", *words])
    assert ended.value.code == 1
    return capsys.readouterr().err


def test_what_is_wrong_is_one_line_before_spark_starts(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    file.write_text(FILE.replace("topic", "topik"))
    assert refusal(capsys, str(file)) == (
        f"penstock: {file}:3: [source] format nsq knows no option topik; did you mean topic?\n"
    )
    monkeypatch.setattr(requirements, "require_spark", lambda: None)
    monkeypatch.setattr(run_command, "run_pipeline", lambda *_: None)
    places = ("--topic=t", "--to=lake", "--checkpoint=c", "--nsqd-http-address=127.0.0.1:4151")
    assert refusal(capsys, "archive", *places, "--max-records-per-trigger=0") == (
        "penstock: --max-records-per-trigger must be a positive whole number, not '0'\n"
    )


def test_options_of_spark_submit_follow_two_dashes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[tuple[submit.Submission, bool]] = []
    monkeypatch.setattr(
        submit, "run_submit", lambda order, *, dry_run: orders.append((order, dry_run))
    )
    app(
        ["pipeline", "submit", str(file), "--master", "yarn", "--dry-run", "--",
         "--num-executors", "4"],
        result_action="return_value",
    )  # fmt: skip
    order = submit.Submission(file, "yarn", options=("--num-executors", "4"))
    assert orders == [(order, True)]


def test_init_writes_where_it_is_told_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app(["pipeline", "init", "metrics"], result_action="return_value")
    app(["pipeline", "init", "archive", "lake.toml"], result_action="return_value")
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.toml", "lake.toml"}
    file = tmp_path / "own.toml"
    file.write_text("mine")
    with pytest.raises(PenstockError, match="is there already: give another name"):
        write_file("archive", file)
    assert file.read_text() == "mine"
    with pytest.raises(PenstockError, match="cannot be written: No such file"):
        write_file("archive", tmp_path / "no" / "own.toml")


def test_keys_of_all_files_are_checked_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong, missing = (tmp_path / f"{name}.toml" for name in ("right", "wrong", "missing"))
    write_file("metrics", right)
    wrong.write_text("[source]\n[sink]\nformat = 1\n")
    capsys.readouterr()
    run_validate([right], with_spark=False)
    assert capsys.readouterr().out == f"{right}: keys and options of right are right\n"
    with pytest.raises(SystemExit) as ended:
        run_validate([wrong, missing, right], with_spark=False)
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert [line.split(" ")[1] for line in err.splitlines()] == [f"{wrong}:1:", f"{missing}"]


def test_a_file_without_tests_starts_no_spark(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    run_tests([file])
    assert capsys.readouterr().out == f"{file}: no [[tests]]\n"
    with pytest.raises(PipelineFileError, match="cannot be read"):
        run_tests([file.with_name("missing.toml")])


KINDS = ("archive", "metrics", "forward", "deliver", "dedupe", "backfill")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_right_as_it_stands(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.toml"
    write_file(kind, file)
    assert capsys.readouterr().out.splitlines()[1] == f"  penstock pipeline validate {file}"
    spec = Pipeline.from_file(file).spec
    assert spec.name == "own"
    assert spec.tests
    assert len(template(kind).splitlines()) <= 45, "short enough to be read"


PAGES = [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))]
OTHERS = {"export", "spark-class", "spark-submit"}
"""Commands of others; tests/spark/nodes/test_cluster.py runs those."""


def test_pages_show_the_file_that_init_writes_for_each_kind() -> None:
    pages = [*(DOCS / "pipelines").glob("*.md")]
    files = [text for page in pages for text in blocks(page, "toml")]
    given = [words for page in pages for words in commands(page)]
    for kind in KINDS:
        assert template(kind) in files
        assert ["penstock", "pipeline", "init", kind] in given


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_files_and_code_of_a_page_are_right(page: Path, tmp_path: Path) -> None:
    found = commands(page)
    assert found, "a page says how to run it"
    for words in found:
        if words[0] == "penstock":
            app.parse_args(words[1:], exit_on_error=False, print_error=False)
        else:
            assert words[0] in OTHERS, words
    file = tmp_path / "pipeline.toml"
    for text in blocks(page, "toml"):
        file.write_text(completed(text))
        Pipeline.from_file(file)
    for text in blocks(page, "python"):
        ast.parse(text)


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


@pytest.mark.parametrize("tool", ["Penstock", *OTHER_TOOLS])
def test_the_table_counts_the_files_of_each_tool(tool: str) -> None:
    folder = ROOT / "tests" / "fixtures" / "same_job"
    if tool == "Penstock":
        text, cell = template("forward"), r"Penstock \(.*\)"
    else:
        text, cell = "".join((folder / name).read_text() for name in OTHER_TOOLS[tool]), tool
    row = rf"\| {cell} \| {re.escape(sizes(text))} \|"
    assert re.search(row, (DOCS / "pipelines.md").read_text())


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Keyboard:
    """Lines that are typed, None for Ctrl-C, and the prompts before them."""

    def __init__(self, *lines: str | None) -> None:
        self._lines = [*lines]
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        if line is None:
            raise KeyboardInterrupt
        return line


class NoViews:
    """A Spark that knows no view, and cannot make one."""

    def sql(self, statement: str) -> None:
        raise RuntimeError("no such view")


def test_statements_end_with_a_semicolon_or_the_input() -> None:
    typed = Keyboard("select 1;\n", "select", "  2 ; ", "", ";", "select 3")
    assert list(statements(typed)) == ["select 1", "select\n  2 ", "select 3"]
    assert typed.prompts == ["sql> ", "sql> ", "...> ", "sql> ", "sql> ", "sql> ", "...> "]


def test_exit_ends_and_ctrl_c_begins_the_statement_again() -> None:
    assert list(statements(Keyboard("select 1;", "exit", "select 2;"))) == ["select 1"]
    typed = Keyboard("select wrong", None, "select 1;")
    assert list(statements(typed)) == ["select 1"]
    assert typed.prompts[:3] == ["sql> ", "...> ", "sql> "]


def test_views_have_names_that_sql_can_say() -> None:
    found = views(["Clicks", "a.b-c", "a_b_c"])
    assert found == {"clicks": ["Clicks"], "a_b_c": ["a.b-c", "a_b_c"]}
    assert listed(found, ["clicks", "body", "a_b_c"]) == [
        "a_b_c is not a view, as it could be any of the topics a.b-c, a_b_c",
        "clicks",
    ]


def test_a_name_of_two_topics_is_told_with_what_spark_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_topics", lambda nodes: ["Orders", "orders", "x"])
    spark = cast("SparkSession", NoViews())
    shell = _Shell(spark, {}, 5)
    with pytest.raises(
        PenstockError, match="no such view; orders is not a view, as it could be any"
    ):
        shell.answer("select body from Orders")
    shell.answer("show topics")
    assert capsys.readouterr().out.splitlines()[1] == "x"


def test_views_are_made_again_for_each_statement_and_topics_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = ["a", "b"]
    monkeypatch.setattr(sql, "_topics", lambda nodes: list(topics))
    spark = MagicMock()
    shell = _Shell(spark, {"nsqd_http_address": "h:1"}, 5)

    def made(statement: str) -> list[str]:
        spark.reset_mock()
        shell.answer(statement)
        options = spark.read.format.return_value.options
        return sorted(call.kwargs["topic"] for call in options.call_args_list)

    assert made("select 1") == []
    assert made("create view v as select * from a") == ["a"]
    assert made("select * from v") == ["a"], "v stands on the view of a"
    topics.append("c")
    assert made("select * from A join c") == ["a", "c"]
    topics[:] = ["a", "c", "C"]
    assert made("select * from a") == ["a"]
    spark.catalog.dropTempView.assert_called_once_with("c")

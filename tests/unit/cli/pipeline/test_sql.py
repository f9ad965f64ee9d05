"""Statements as they are typed, and the names of views."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

import pytest

from penstock.cli.pipeline import sql
from penstock.cli.pipeline.sql import _Shell, listed, statements, views
from penstock.core.errors import PenstockError

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


def test_exit_ends() -> None:
    assert list(statements(Keyboard("select 1;", "exit", "select 2;"))) == ["select 1"]


def test_ctrl_c_begins_the_statement_again() -> None:
    typed = Keyboard("select wrong", None, "select 1;")
    assert list(statements(typed)) == ["select 1"]
    assert typed.prompts[:3] == ["sql> ", "...> ", "sql> "]


def test_views_have_names_that_sql_can_say() -> None:
    found = views(["Clicks", "a.b-c", "a_b_c"])
    assert found == {"clicks": ["Clicks"], "a_b_c": ["a.b-c", "a_b_c"]}
    assert listed(found, ["clicks", "body", "a_b_c"]) == [
        "a_b_c is no view, as it could be any of the topics a.b-c, a_b_c",
        "clicks",
    ]


def test_a_name_of_two_topics_is_told_with_what_spark_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_topics", lambda nodes: ["Orders", "orders", "x"])
    spark = cast("SparkSession", NoViews())
    shell = _Shell(spark, {}, 5)
    with pytest.raises(PenstockError, match="no such view; orders is no view, as it could be any"):
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

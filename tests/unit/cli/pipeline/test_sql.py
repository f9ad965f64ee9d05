"""Statements as they are typed, and the names of views."""

from __future__ import annotations

import io

import pytest

from penstock.cli.pipeline.sql import statements, views


def test_statements_end_with_a_semicolon_or_the_input(capsys: pytest.CaptureFixture[str]) -> None:
    typed = io.StringIO("select 1;\nselect\n  2 ;\n\n;\nselect 3")
    assert list(statements(typed, True)) == ["select 1", "select\n  2 ", "select 3"]
    assert capsys.readouterr().out.startswith("sql> sql> ...> sql> ")


def test_exit_ends() -> None:
    assert list(statements(io.StringIO("select 1;\nexit\nselect 2;"), False)) == ["select 1"]


def test_views_have_names_that_sql_can_say() -> None:
    assert views(["Clicks", "a.b-c"]) == {"clicks": "Clicks", "a_b_c": "a.b-c"}

"""Statements as they are typed, and the names of views."""

from __future__ import annotations

from penstock.cli.pipeline.sql import statements, views


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
    assert views(["Clicks", "a.b-c"]) == {"clicks": "Clicks", "a_b_c": "a.b-c"}

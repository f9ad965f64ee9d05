"""Statements one after the other, over topics to which messages come in between."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.page_blocks import sample
from tools.harness.fake_log_server import FakeLogServer
from tools.pages.documentation import replaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Typist:
    """Standard input of lines, a callable among which is called when its turn comes."""

    def __init__(self, *lines: str | Callable[[], object]) -> None:
        self._lines = [*lines]

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        while self._lines:
            line = self._lines.pop(0)
            if isinstance(line, str):
                return f"{line}\n"
            line()
        return ""


def test_each_statement_of_the_shell_sees_what_came_before_it(
    spark: SparkSession, penstock: Callable[..., object], server: FakeLogServer,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clicks = server.queue("clicks")
    clicks.append([b"x"] * 2)
    typed = Typist(
        "create temporary view every as select * from clicks;",
        "select count(*) from clicks;",
        lambda: clicks.append([b"x"] * 3),
        "select count(*) from clicks;",
        "select count(*) from every;",
        lambda: server.queue("later").append([b"x"] * 7),
        "select count(*) from later;",
        "drop view every;",
    )
    monkeypatch.setattr(sys, "stdin", typed)
    penstock("pipeline", "sql", "--nsqd-http-address", server.address, "--timeout", "60s")
    for view in ("clicks", "later"):
        spark.catalog.dropTempView(view)
    found = re.findall(r"^\|(\d+)", capsys.readouterr().out, re.M)
    assert found == ["2", "5", "5", "7"]


@pytest.mark.parametrize("mark", ["create table clicks", "def look"])
def test_the_recipes_of_the_page_see_what_came_before_each_statement(
    spark: SparkSession, server: FakeLogServer, mark: str
) -> None:
    clicks = server.queue("clicks")
    text = replaced(sample("spark.md", mark), {"127.0.0.1:4151": server.address})
    *first, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {"spark": spark}
    counts = []
    try:
        exec(ast.unparse(ast.Module(first, [])), names)
        for more in (2, 3):
            clicks.append([b"x"] * more)
            counts.append(eval(ast.unparse(last), names).collect()[0][0])
    finally:
        spark.catalog.dropTempView("clicks")
        spark.sql("drop table if exists clicks")
    assert counts == [2, 5]

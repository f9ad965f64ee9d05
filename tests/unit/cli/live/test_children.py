"""JSON lines from a child, and what else may come through its pipe."""

from __future__ import annotations

import io
import json
import os
import time
from typing import Any

import pytest

from penstock.cli.live.children import Reports, parse, report


def deliver_until(reports: Reports, ended: list[str]) -> None:
    for _ in range(6000):
        reports.deliver()
        if ended:
            return
        time.sleep(0.01)
    raise AssertionError("the end of the stream was not noticed")


def test_a_report_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(doing="a\nb", rate=1.5, name="Zürich")
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert parse(said) == {"doing": "a\nb", "rate": 1.5, "name": "Zürich"}


@pytest.mark.parametrize(
    "line", ["", "\n", "WARNING: x\n", '{"published": 1', "[1]\n", "17\n", "null\n", "\ufffd\0\n"]
)
def test_garbage_is_no_report(line: str) -> None:
    assert parse(line) is None


def test_reports_between_garbage_arrive_in_order_and_then_the_end() -> None:
    lines = ["noise\n", '{"a": 1}\n', "[]\n", '{"a": 2}\n', '{"a": 3']
    heard: list[dict[str, Any]] = []
    ended: list[str] = []
    reports = Reports()
    reports.follow(io.StringIO("".join(lines)), heard.append, lambda: ended.append("end"))
    deliver_until(reports, ended)
    assert heard == [{"a": 1}, {"a": 2}]
    assert ended == ["end"]


def test_handlers_run_where_deliver_is_called_and_may_raise() -> None:
    reading, writing = os.pipe()
    ended: list[str] = []
    heard: list[int] = []

    def handle(facts: dict[str, Any]) -> None:
        heard.append(facts["n"])
        if facts["n"] == 1:
            raise RuntimeError("handler")

    reports = Reports()
    reports.follow(os.fdopen(reading), handle, lambda: ended.append("end"))
    with os.fdopen(writing, "w") as child:
        child.writelines(json.dumps({"n": n}) + "\n" for n in range(3))
    with pytest.raises(RuntimeError, match="handler"):
        deliver_until(reports, ended)
    deliver_until(reports, ended)
    assert heard == [0, 1, 2]

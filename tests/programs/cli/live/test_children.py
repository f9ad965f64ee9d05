"""Children that talk, die and are stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.children import Reports, ServiceError, start, stop_all, wait_for_ping
from tests.forwarding import wait_until

CHILD = """
import sys
from penstock.cli.live.children import report
report(state="ready")
print("to the log", file=sys.stderr, flush=True)
for line in sys.stdin:
    report(heard=line.strip())
    if line.startswith("die"):
        sys.exit(3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "talking_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "talking_child"


def test_reports_come_in_order_and_death_is_noticed(module: str, tmp_path: Path) -> None:
    child = start("talker", module, [], tmp_path / "log", talks=True)
    heard: list[dict[str, Any]] = []
    reports = Reports()
    assert child.process.stdout is not None
    reports.follow(child.process.stdout, heard.append)
    child.tell("one")
    child.require_alive()
    child.tell("die")
    child.process.wait(60)

    def all_came() -> bool:
        reports.deliver()
        return len(heard) >= 3

    wait_until(all_came, lambda: str(heard))
    assert heard == [{"state": "ready"}, {"heard": "one"}, {"heard": "die"}]
    with pytest.raises(ServiceError, match=r"(?s)talker ended with code 3.*to the log"):
        child.require_alive()
    child.tell("nobody listens")
    stop_all([child])


def test_stopping_a_child_that_lives(module: str, tmp_path: Path) -> None:
    child = start("talker", module, [], tmp_path / "log", talks=True)
    assert child.process.stdout is not None
    with child.process.stdout:
        assert stop_all([child]) == []
    assert child.ended


def test_a_daemon_that_ends_instead_of_answering(tmp_path: Path) -> None:
    child = start("broken", "no_such_module", [], tmp_path / "log")
    with pytest.raises(ServiceError, match=r"(?s)broken ended with code 1.*No module named"):
        wait_for_ping(child, "127.0.0.1:9")

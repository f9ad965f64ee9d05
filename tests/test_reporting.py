"""A run of tests as a person sees it: how far it is, and of what failed all that helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RED = """
import logging

def test_red():
    print("seed 4711")
    logging.getLogger("x").warning("a line of the log")
    assert [1, 2] == [1, 3]

def test_broken(no_such_fixture):
    pass

def test_green():
    pass
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one", "several"])
def test_a_red_run_ends_with_what_failed_and_why(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "test_some.py").write_text(RED)
    words = [sys.executable, "-m", "pytest", "-p", "tests.reporting", "-q", "-rN", "--tb=short"]
    ended = subprocess.run(
        [*words, *processes, f"--rootdir={tmp_path}", "test_some.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    said = ended.stdout
    assert "3 tests\n" in said
    _, assertion, rest = said.rpartition("E   assert [1, 2] == [1, 3]")
    assert assertion, said
    assert "| seed 4711\n" in rest
    assert "a line of the log" in rest
    assert "once more: .venv/bin/python -m pytest 'test_some.py::test_red'" in rest
    assert "fixture 'no_such_fixture' not found" in said
    assert said.rstrip().splitlines()[-1].startswith("1 failed, 1 passed, 1 error in")
    reports = {path.name for path in tmp_path.glob("build/failed-tests/*/*")}
    assert reports == {"test_some.py-test_broken.txt", "test_some.py-test_red.txt"}
    (whole,) = tmp_path.glob("build/failed-tests/*/*red.txt")
    assert "in test_red" in whole.read_text()

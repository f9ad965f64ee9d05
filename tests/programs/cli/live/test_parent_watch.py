"""A child ends with its parent, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.harness.processes import left_over, marked, marked_environment

PARENT_WATCH = "penstock.cli.live.parent_watch"
PARENT = """
import subprocess, sys, time, os
from pathlib import Path
from penstock.cli.live.children import start
child = start("sleeper", "sleeping_child", [], Path(sys.argv[1]), talks=True)
print(child.process.stdout.readline(), flush=True)
time.sleep(600)
"""
CHILD = "import sys, time\nprint('up', sys.argv[1:], __name__, flush=True)\ntime.sleep(600)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux only")
def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    (tmp_path / "sleeping_child.py").write_text(CHILD)
    environment = {**marked_environment(), "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up [] __main__\n"
        processes = marked(environment)
        assert len(processes) == 2
        assert any(each.endswith(" -m sleeping_child ") for each in processes.values()), processes
        parent.kill()
    assert left_over(environment, 60) == {}


def test_nothing_starts_for_a_parent_that_is_gone() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", PARENT_WATCH, "1", "penstock.cli.nsqd", "--version"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "the parent was gone before the start\n"
    assert ended.stdout == ""

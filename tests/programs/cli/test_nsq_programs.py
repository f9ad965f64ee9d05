"""What every program of NSQ's does with --version and with a wrong flag, as a user starts it."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import pytest

from tools.harness.processes import children_cpu_s

DAEMONS = ["nsqd", "nsqlookupd", "nsqadmin"]
TOOLS = ["nsq_stat", "nsq_tail", "nsq_to_file", "nsq_to_http", "nsq_to_nsq", "to_nsq"]
HEAVY = {"asyncio", "uvloop", "numpy", "msgspec", "rich", "penstock.nsq.client"}


def run(program: str, flag: str, *python: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *python, "-m", f"penstock.cli.{program}", flag]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", [*DAEMONS, *TOOLS])
def test_the_version_is_quick_and_imports_little(program: str) -> None:
    before = children_cpu_s()
    done = run(program, "--version", "-X", "importtime")
    assert children_cpu_s() - before < 1  # 0.1 s
    built = f" (built w/python{platform.python_version()})" if program in DAEMONS else ""
    assert (done.returncode, done.stdout) == (0, f"{program} v1.3.0{built}\n")
    found = [re.match(r"import time: .*\| +(\S+)", line) for line in done.stderr.splitlines()]
    assert not HEAVY & {match[1] for match in found if match}
    assert all(found)


@pytest.mark.parametrize("program", [*DAEMONS, *TOOLS])
def test_a_wrong_flag_is_one_line_and_the_usage(program: str) -> None:
    done = run(program, "--nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flag provided but not defined: -nosuch\nUsage of ")

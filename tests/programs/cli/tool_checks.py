"""What every tool's command does, as a user starts it."""

from __future__ import annotations

import subprocess
import sys


def version(tool: str) -> str:
    """What --version prints, and that it imports little for it."""
    done = _run(tool, "--version", "-X", "importtime")
    assert done.returncode == 0
    for heavy in ("asyncio", "numpy", "rich", "penstock.nsq.client"):
        assert f" {heavy}\n" not in done.stderr
    return done.stdout


def refusal(tool: str, flag: str) -> str:
    """What it says to a flag it does not take."""
    done = _run(tool, flag)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def _run(tool: str, flag: str, *python: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *python, "-m", f"penstock.cli.{tool}", flag]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)

"""The beginning of the penstock command."""

from __future__ import annotations

import signal
import subprocess
import sys

_INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
from penstock.cli.start import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_an_interrupt_while_it_is_loaded_is_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_WHILE_LOADING],
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""


def test_it_is_the_command() -> None:
    text = "import sys; sys.argv[1:] = ['--version']; from penstock.cli.start import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", text], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert done.stdout.startswith("penstock ")

"""The cases of `nsq/tools/test_errors.py` that need a port or a process."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_who_loses_his_reader_ends_as_programs_do() -> None:
    code = (
        "from penstock.nsq.tools.errors import OutputClosed, exit_code\nexit_code(OutputClosed())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")

"""A reader that has had enough is no error."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from penstock.cli.shared.pipes import quiet_pipe
with quiet_pipe():
    while True:
        print("x" * 1000)
"""


def test_the_end_of_a_pipe_is_quiet() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    with program.stdout, program.stderr:
        assert program.stdout.readline() == b"x" * 1000 + b"\n"
        program.stdout.close()
        assert program.wait(60) == 0
        assert program.stderr.read() == b""

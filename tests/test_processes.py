"""The helpers for programs that tests start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.harness.processes import rest_of

PROGRAM = "import os; os.write(1, b'one\\ntw'); input(); os.write(1, b'o\\n')"


def test_the_rest_of_the_output_holds_what_was_read_ahead() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "one\n"
        print("go on", file=program.stdin, flush=True)
        assert rest_of(program, 60) == "two\n"
    assert program.returncode == 0


def test_a_program_that_goes_on_is_no_rest() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as program,
        pytest.raises(AssertionError, match="did not end"),
    ):
        rest_of(program, 0.1)

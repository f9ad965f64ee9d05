"""A program that is forked is the program: what it says, how it ends, its pid and its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from penstock.testing.daemons import DaemonError, run_nsqd
from tools.harness.forking import Forked, completed


@pytest.mark.parametrize("flag", ["--version", "-h", "--nope", "--node-id=1024"])
def test_it_says_and_ends_as_the_program_does(flag: str) -> None:
    real = subprocess.run(
        [sys.executable, "-m", "penstock.cli.nsqd", flag], capture_output=True, text=True
    )
    forked = completed("nsqd", flag)
    assert forked.returncode == real.returncode
    assert forked.stdout == real.stdout
    # Before the text of a log line is its time.
    said = [[line.partition(": ")[2] for line in each.stderr.splitlines() if "ID: " not in line]
            for each in (forked, real)]  # fmt: skip
    assert said[0] == said[1]


def test_a_daemon_is_a_process_of_its_own() -> None:
    with run_nsqd() as one, run_nsqd() as other:
        assert isinstance(one._process, Forked)
        assert len({one.pid, other.pid, os.getpid()}) == 3
        first = one.pid
        one.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        one.start()
        assert one.pid != first
        os.kill(other.pid, signal.SIGSTOP)
        with pytest.raises(DaemonError, match="did not stop"):
            other.stop(0.2)
        other.start()
        assert other.stop() == 0


def test_a_daemon_that_ends_by_itself_is_noticed() -> None:
    with pytest.raises(DaemonError, match="exit code 1"), run_nsqd("--node-id=1024"):
        pass
    with run_nsqd() as daemon:
        process = daemon._process
        assert process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        os.kill(daemon.pid, signal.SIGTERM)
        assert process.wait(60) == 0
        with pytest.raises(DaemonError, match="ended by itself with exit code 0"):
            daemon.close()

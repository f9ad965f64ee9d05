"""The program as a user starts it; what it says at the start is compared in tests/conformance."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from penstock.testing import run_nsqadmin

PROGRAM = [sys.executable, "-m", "penstock.cli.nsqadmin"]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *flags], capture_output=True, text=True, timeout=60)


def test_it_runs_until_it_is_told_to_stop() -> None:
    with run_nsqadmin("--nsqd-http-address=127.0.0.1:9") as admin:
        with urllib.request.urlopen(f"http://{admin.http}/ping", timeout=30) as answer:
            assert answer.read() == b"OK"
        assert admin.stop() == 0
        assert "bye" in admin.log()
        admin.start()


def test_what_it_cannot_start_with(tmp_path: Path) -> None:
    done = run("--nsqd-http-address=127.0.0.1")
    assert done.returncode == 1
    assert "FATAL: failed to instantiate nsqadmin - failed to resolve" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signal_while_a_node_hangs() -> None:
    """The end does not wait for it."""
    process = subprocess.Popen(
        [*PROGRAM, "--http-address=127.0.0.1:0", "--nsqd-http-address=192.0.2.1:4151"],
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"listening" not in process.stderr.readline():
        assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert time.monotonic() - began < 50  # connecting alone is given 60


def test_it_listens_before_numpy_is_loaded() -> None:
    """The history needs it, which comes last; a search or a resend loads it when it is asked."""
    code = "import sys, penstock.admin.daemon; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0

"""nsq_to_file as a user starts it, for tests. PENSTOCK_NSQ_TO_FILE names another one, Go's say."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from penstock.testing.daemons import Daemon
from tools.harness.forking import Process, start

PROGRAM = shlex.split(os.environ.get("PENSTOCK_NSQ_TO_FILE", "")) or [
    sys.executable,
    "-m",
    "penstock.cli.nsq_to_file",
]
WAIT_S_MAX = 60.0
POLL_S = 0.005


def publish(daemon: Daemon, topic: str, *bodies: bytes) -> None:
    """Publish bodies without line ends, all at once."""
    url = f"http://{daemon.http}/mpub?topic={topic}"
    with urllib.request.urlopen(url, b"\n".join(bodies)) as answer:
        assert answer.read() == b"OK"


class ToFile:
    """One running nsq_to_file, with what it says on stderr in a file."""

    def __init__(self, home: Path, *flags: str, file_size_max: int | None = None) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "stderr.txt"

        def limited() -> None:
            if file_size_max is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_max, file_size_max))

        with self._log.open("ab") as log:
            self._process: Process = (
                start([*PROGRAM, *flags], log)
                if file_size_max is None
                else subprocess.Popen(
                    [*PROGRAM, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    preexec_fn=limited,
                )
            )  # fmt: skip

    def said(self) -> str:
        """All it wrote so far."""
        return self._log.read_text()

    def own_lines(self, level: str = "") -> list[str]:
        """What it said itself, without the client's lines, prefix and time."""
        lines = [line for line in self.said().splitlines() if line.startswith("[nsq_to_file] ")]
        return [line.split(" ", 3)[3] for line in lines if f" {level}" in line]

    def wait_until_said(self, text: str, times: int = 1) -> None:
        """Until stderr holds the text so often."""
        for _ in range(int(WAIT_S_MAX / POLL_S)):
            if self.said().count(text) >= times:
                return
            assert self._process.poll() is None, self.said()
            time.sleep(POLL_S)
        raise AssertionError(f"no {text!r} in\n{self.said()}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Until it ends; its exit code."""
        try:
            return self._process.wait(WAIT_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it does not end:\n{self.said()}") from None

    def stop(self) -> int:
        """SIGTERM, and until it ends; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL; does nothing when it has ended."""
        self._process.kill()
        self._process.wait()

"""The process that drives Spark's queries, with the JVM and the Python workers below it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.processes import below

from .queries import QUERIES, checkpoint

FINISH_S_MAX: Final = 900.0
QUICK: Final = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""The optimizing compiler takes longer than a life of this JVM."""


class Driver:
    """The program of the queries, killed and started again over the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "driver.log"
        self._start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """True until the program has ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_started(self) -> bool:
        """True if it was started and not killed since, though it may have ended by itself."""
        return self._process is not None

    def start(self, *words: str) -> None:
        """Start it; it needs some seconds until its queries run."""
        self._start = self._log.stat().st_size if self._log.exists() else 0
        command = [sys.executable, "-m", "tests.campaigns.queries", str(self._folder), *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | QUICK,
            )  # fmt: skip

    def finish(self) -> None:
        """Run it until the queries have read all there is."""
        self.start("finish")
        assert self._process is not None
        assert self._process.wait(FINISH_S_MAX) == 0, self.log[-3000:]

    @property
    def log(self) -> str:
        """What it and its JVM have written since the last start."""
        with self._log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL to the program, its JVM and all below, and wait for its end."""
        if self._process is None:
            return
        for pid in (self._process.pid, *below(self._process.pid)):
            _kill(pid)
        self._process.wait()
        self._process = None

    def kill_worker(self, rng: random.Random) -> bool:
        """SIGKILL to one of the JVM's Python processes: tasks, planners, what forks them. False if
        there is none at this moment.
        """
        if self._process is None:
            return False
        pids = [pid for pid in below(self._process.pid) if _runs_python(pid)]
        if pids:
            _kill(rng.choice(pids))
        return bool(pids)

    def batches(self, kind: str) -> dict[str, int]:
        """The last batch of each query that is in its log of ``offsets`` or ``commits``."""
        return {name: _last(checkpoint(self._folder, name) / kind) for name in QUERIES}


def _last(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


def _runs_python(pid: int) -> bool:
    with suppress(OSError):
        return b"\0-m\0pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

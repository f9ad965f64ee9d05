"""The process that drives Spark's queries, on a small cluster or alone.

The cluster has two executors below the driver, each a JVM; driver and executors run in a Python
that has what docs/spark.md asks of an executor, and the zip. Alone, all is in one JVM, in the
Python of the tests. A channel is read by Penstock itself beside the driver, so then both run in
that Python, without the zip.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

import penstock
from penstock.spark import session
from penstock.spark.java import home_for_spark_submit
from penstock.spark.shipping import write_zip
from tools.harness.class_archive import QUICK, java_options
from tools.harness.environments import python_with, site_packages
from tools.harness.processes import below

from . import queries
from .queries import checkpoint

CLUSTER: Final = "local-cluster[2,1,1024]"
ALONE: Final = "local[2,4]"
"""Two tasks at once, and four attempts each, as on a cluster."""
FINISH_S_MAX: Final = 900.0
FINISHES_MAX: Final = 5
INSTALLED: Final = ("numpy", "pyarrow", "pyspark", "py4j")
QUIET: Final = f"-Dlog4j2.configurationFile={Path(session.__file__).parent}/log4j2.properties"
EXECUTOR: Final = b"CoarseGrainedExecutorBackend\0"
WORKER: Final = b"\0-m\0pyspark"
"""Parts of the command lines of those that are killed."""


class Driver:
    """The program of the queries, killed and started again over the same folder."""

    def __init__(self, folder: Path, names: Sequence[str], *, clustered: bool) -> None:
        self._folder = folder
        self._names = names
        self._master = CLUSTER if clustered else ALONE
        self._log = folder / "driver.log"
        self._start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._python, self._site = Path(sys.executable), Path(pyspark.__file__).parents[1]
        self._java_options = java_options()
        has_channel = any(queries.QUERIES[name].place == queries.CHANNEL for name in names)
        if clustered and not has_channel:
            self._python = python_with(folder / "bare", *INSTALLED)
            self._site = site_packages(folder / "bare")
            self._java_options = QUICK
        self._code = Path(penstock.__file__).parents[1] if has_channel else write_zip(folder)

    @property
    def is_running(self) -> bool:
        """True until the program has ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *words: str) -> None:
        """Start it; it needs some seconds until its queries run."""
        self._start = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._submit(), queries.__file__, str(self._folder), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self._folder, env=self._environment(),
            )  # fmt: skip

    def _submit(self) -> list[str]:
        """The words of spark-submit, up to the program."""
        settings = session.settings_for(self._master) | {
            "spark.pyspark.python": str(self._python),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.driver.extraJavaOptions": QUIET,
            "spark.executor.extraJavaOptions": QUIET,
        }
        program = self._site / "pyspark/bin/spark-submit"
        words = [f"--conf={name}={value}" for name, value in settings.items()]
        shipped = [f"--py-files={self._code}"] if self._code.suffix == ".zip" else []
        return [str(program), f"--master={self._master}", *shipped, *words]

    def _environment(self) -> dict[str, str]:
        ours = {
            "PYTHONPATH": str(self._code),  # for the processes beside the driver
            "JAVA_HOME": str(home_for_spark_submit()),
            "PYSPARK_PYTHON": str(self._python),
            "JDK_JAVA_OPTIONS": self._java_options,
        }
        return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | ours

    def finish(self) -> None:
        """Run it until the queries have read all there is; again if it ends before that."""
        for _ in range(FINISHES_MAX):
            self.start("finish")
            assert self._process is not None
            if self._process.wait(FINISH_S_MAX) == 0:
                return
        raise AssertionError(self.log[-3000:])

    @property
    def log(self) -> str:
        """What it and its JVM have written since the last start."""
        with self._log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def failures(self) -> list[str]:
        """A line for each query that has failed since the first start."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        lines = text.splitlines()
        return [line for line in lines if line.startswith("FAILED ")]

    def kill(self) -> None:
        """SIGKILL to the program, its JVM and all below, and wait for its end."""
        if self._process is None:
            return
        for pid in (self._process.pid, *below(self._process.pid)):
            _kill(pid)
        self._process.wait()
        self._process = None

    def kill_below(self, part: bytes, rng: random.Random) -> bool:
        """SIGKILL to a process below it that has this in its command line, such as WORKER: tasks,
        planners, what forks them. False if there is none at this moment.
        """
        if self._process is None:
            return False
        pids = [pid for pid in below(self._process.pid) if part in _command_line(pid)]
        if pids:
            _kill(rng.choice(pids))
        return bool(pids)

    def batches(self, kind: str) -> dict[str, int]:
        """The last batch of each query that is in its log of ``offsets`` or ``commits``."""
        return {name: _last(checkpoint(self._folder, name) / kind) for name in self._names}


def _last(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


def _command_line(pid: int) -> bytes:
    with suppress(OSError):  # it ended meanwhile
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

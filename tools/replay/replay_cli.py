"""Replays the cases of `nsqd-cli.jsonl`: arguments, configuration files, exit codes, log lines.

Each case is a process of its own, on free ports and an empty data path; some run at the same time.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tools.harness.certificates import Certificates
from tools.harness.forking import Process, start
from tools.harness.samples import Case, load, matches

from .connection import Miss
from .parts import Names
from .report import Report

TOGETHER = 4
"""How many processes run at the same time."""
LIFE_S_MAX = 180.0
POLL_S = 0.005
LOOK_S = 0.25
REFUSES_S_MAX = 2.0
"""Some of Go's refuse only after they listen, but then at once."""
SETTLE_S = 0.05
"""Go's nsqd heeds signals only a moment after it listens."""
LISTENING = re.compile(r"\b(TCP|HTTP): listening on \S+:(\d+)$", re.MULTILINE)


def replay_cli(path: Path, program: str | None = None, only: Iterable[str] = ()) -> Report:
    """Play all cases of the file, or only those named. `program` replaces our own nsqd."""
    report = Report(path.name)
    chosen = set(only)
    cases = [case for case in load(path) if not chosen or case["name"] in chosen]
    words = program_words(program)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        names = Certificates(Path(folder)).placeholders()

        def play(case: Case) -> Miss | None:
            try:
                _Run(case, words, names, Path(tempfile.mkdtemp(dir=folder))).play()
            except Miss as miss:
                return miss
            return None

        with ThreadPoolExecutor(TOGETHER) as pool:
            for case, miss in zip(cases, pool.map(play, cases), strict=True):
                if miss is None:
                    report.held.append(case["name"])
                else:
                    report.miss(case["name"], miss)
    return report


def program_words(program: str | None = None) -> list[str]:
    """What starts nsqd: the program given, or that of PENSTOCK_NSQD, or our own."""
    program = program or os.environ.get("PENSTOCK_NSQD")
    return [program] if program else [sys.executable, "-m", "penstock.cli.nsqd"]


class _Run:
    """One start of the program, as a case wants it."""

    def __init__(self, case: Case, program: list[str], names: dict[str, str], home: Path) -> None:
        self.case = case
        self.home = home
        self.data_path = home / "data"
        self.data_path.mkdir()
        self.names = Names({**names, "data-path": str(self.data_path)})
        own = [f"--data-path={self.data_path}", "--tcp-address=127.0.0.1:0"]
        own.append("--http-address=127.0.0.1:0")
        if "config_file" in case:
            config = home / "nsqd.cfg"
            config.write_text(case["config_file"])
            own.append(f"--config={config}")
        given = [self.names.fill(word) for word in case.get("args", ())]
        self.command = [*program, *own, *given]

    def play(self) -> None:
        """Raises Miss where the program does something else."""
        with (
            (self.home / "out").open("wb") as out,
            (self.home / "err").open("wb") as err,
        ):
            process = start(self.command, out, err, folder=self.home)
            try:
                if "starts" in self.case or "config_values" in self.case:
                    self._play_life(process)
                else:
                    self._play_refusal(process)
            finally:
                process.kill()
                process.wait()

    def text(self, name: str) -> str:
        return (self.home / name).read_text(errors="replace")

    def _play_life(self, process: Process) -> None:
        port = self._wait_for_ports(process)
        for option, expected in self.case.get("config_values", {}).items():
            self._check("config " + option, expected, _get(port, f"/config/{option}"))
        time.sleep(SETTLE_S)
        process.send_signal(signal.SIGTERM)
        expected = self.case.get("exit_after_sigterm", 0)
        self._check("exit code after SIGTERM", expected, process.wait(LIFE_S_MAX))

    def _wait_for_ports(self, process: Process) -> int:
        """The port of HTTP, 0 where that is off."""
        without_http = "--http-address=" in self.case.get("args", ())
        for _ in range(int(LIFE_S_MAX / POLL_S)):
            found = dict(LISTENING.findall(self.text("err")))
            if "TCP" in found and (without_http or "HTTP" in found):
                return int(found.get("HTTP", 0))
            if process.poll() is not None:
                raise Miss("start", "it runs", self.text("err"))
            time.sleep(POLL_S)
        raise Miss("start", "it listens", self.text("err"))

    def _play_refusal(self, process: Process) -> None:
        code = self._wait_for_end(process)
        if "exit" in self.case:
            self._check("exit code", self.case["exit"], code)
        elif code == 0:
            raise Miss("exit code", "not 0", code)
        error = self.text("err")
        lines = error.splitlines()
        if "stdout" in self.case:
            self._check_text("stdout", self.case["stdout"], self.text("out"))
        first = self.case.get("stderr_first_lines", [])
        self._check("first lines of stderr", first, lines[: len(first)])
        if "stderr_last_line" in self.case:
            self._check_text("last line of stderr", self.case["stderr_last_line"], lines[-1])
        if self.case.get("stderr_contains", "") not in error:
            raise Miss("stderr", self.case["stderr_contains"], error)

    def _wait_for_end(self, process: Process) -> int:
        left_s = LIFE_S_MAX
        while left_s > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_S)
            is_up = {name for name, _ in LISTENING.findall(self.text("err"))} == {"TCP", "HTTP"}
            left_s = min(left_s - LOOK_S, REFUSES_S_MAX if is_up else LIFE_S_MAX)
        raise Miss("exit code", self.case.get("exit", "not 0"), "it runs")

    def _check(self, what: str, expected: object, actual: object) -> None:
        if expected != actual:
            raise Miss(what, expected, actual)

    def _check_text(self, what: str, expected: str, actual: str) -> None:
        if not matches(expected, actual):
            raise Miss(what, expected, actual)


def _get(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIFE_S_MAX)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()

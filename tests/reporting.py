"""What a person sees of a run of many tests: a line of progress, and of a failure what helps.

``pytest -p tests.reporting`` (``make test``, ``make nightly``) writes how much is done, how long
the rest will take and what runs at the moment: on a terminal in one line that stays in its place,
elsewhere, as in CI's log, twice a minute. Each failure ends the output with its assertion, its seed
and the end of its log; the whole report is in a file, which is named there.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any, Final

import pytest

REPORTS: Final = Path("build", "failed-tests")
"""A folder for each run, of which the last ten stay."""
# How long a test takes by its folder, in a run on two processors. Guessed from the count alone, the
# rest would take hours while the first tests start Sparks, as most tests take milliseconds.
SECONDS: Final = {
    "unit": 0.015, "programs": 0.25, "conformance": 0.2, "dialects": 0.15, "interop": 0.4,
    "crash": 4, "spark": 4, "browser": 2, "campaigns": 20, "hostile": 0.4, "deploy": 0.5,
    "monitoring": 0.2, "release": 0.9, "sim": 0.5, "fuzz": 0.25,
}  # fmt: skip
OTHERS_S: Final = 0.15
REDRAW_S: Final = 0.25
LINE_S: Final = 30.0
LINES_MAX: Final = 12
RUNS_KEPT: Final = 10
SHOWN_MAX: Final = 10
SEED: Final = re.compile(r"reproduce_failure|@seed\(|_SEED=|\bseed\b", re.IGNORECASE)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporting(config))


class Reporting:
    """A plugin for the process whose output a person reads; it hears of all tests, wherever they
    run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.running: dict[str, None] = {}
        self.total = self.done = self.failed = 0
        self.seconds = self.seconds_done = 0.0
        self.began = self.drawn = time.monotonic()
        self.reports = REPORTS / time.strftime("%Y-%m-%d-%H%M%S")
        for old in sorted(REPORTS.glob("*"))[: -RUNS_KEPT + 1]:
            shutil.rmtree(old)

    @property
    def terminal(self) -> Any:
        return self.config.pluginmanager.getplugin("terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._expect(ids)

    def _expect(self, nodeids: list[str]) -> None:
        if nodeids and not self.total:
            self.total, self.seconds = len(nodeids), sum(map(expected_s, nodeids))
            self.began = self.drawn = time.monotonic()
            self.terminal.write_line(f"{self.total:,} tests")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running[nodeid] = None
        self._draw()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.running.pop(nodeid, None)
        self.done += 1
        self.seconds_done += expected_s(nodeid)
        self._draw()

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Count it, and show no letter: the line of progress is there for that."""
        if report.failed:
            return ("error" if report.when != "call" else "failed"), "", ""
        if report.skipped:
            return ("xfailed" if hasattr(report, "wasxfail") else "skipped"), "", ""
        return ("passed" if report.when == "call" else ""), "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed += 1
            self._clear()
            self.terminal.write_line(f"FAILED {report.nodeid}", red=True)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self.drawn < (REDRAW_S if self.terminal.hasmarkup else LINE_S):
            return
        self.drawn = now
        line = self._line(now - self.began)
        if self.terminal.hasmarkup:
            self.terminal.rewrite(line[: shutil.get_terminal_size().columns - 1], erase=True)
        else:
            self.terminal.write_line(line)

    def _clear(self) -> None:
        if self.terminal.hasmarkup:
            self.terminal.rewrite("", erase=True)

    def _line(self, elapsed_s: float) -> str:
        share = min(self.seconds_done / self.seconds, 1.0) if self.seconds else 1.0
        left = f"about {_time(elapsed_s * (1 - share) / share)} left" if share > 0.02 else "..."
        failed = f", {self.failed} failed" if self.failed else ""
        now = ", ".join(dict.fromkeys(map(_place, self.running)))
        done = f"{self.done:,} of {self.total:,} tests{failed}"
        return f"{share:4.0%}  {done}, {_time(elapsed_s)}, {left}  {now}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self.config.option.tbstyle = "no"  # pytest's own pages of what failed

    def pytest_terminal_summary(self) -> None:
        self._clear()
        reports = [*self.terminal.getreports("failed"), *self.terminal.getreports("error")]
        for report in reports[:SHOWN_MAX]:
            self.terminal.write_line("")
            for number, line in enumerate(summary(report, self.reports)):
                self.terminal.write_line(line, red=not number)
        if len(reports) > SHOWN_MAX:
            self.terminal.write_line(f"\nand {len(reports) - SHOWN_MAX} more, in {self.reports}")


def summary(report: pytest.TestReport | pytest.CollectReport, folder: Path) -> list[str]:
    """The lines about a failed test, whose whole report is written into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (re.sub(r"[^\w.-]+", "-", report.nodeid.removeprefix("tests/"))[:150] + ".txt")
    logs = "".join(f"\n--- {name} ---\n{log}" for name, log in report.sections)
    file.write_text(report.longreprtext + logs, encoding="utf-8")
    lines = report.longreprtext.splitlines()
    why = [line for line in lines if line.startswith("E  ")] or lines
    log = logs.splitlines()
    seeds = [line for line in log[:-LINES_MAX] if SEED.search(line)]
    crash = getattr(report.longrepr, "reprcrash", None)
    return [
        f"FAILED {report.nodeid}",
        *([f"  {crash.path}:{crash.lineno}"] if crash else []),
        *(f"  {line}" for line in why[:LINES_MAX]),
        *(f"  | {line}" for line in [*seeds[:3], *log[-LINES_MAX:]] if line),
        f"  the whole report: {file}",
        f"  once more: .venv/bin/python -m pytest '{report.nodeid}'",
    ]


def expected_s(nodeid: str) -> float:
    """The seconds that a test may take, by its folder."""
    return SECONDS.get(nodeid.split("/")[1].partition("::")[0] if "/" in nodeid else "", OTHERS_S)


def _place(nodeid: str) -> str:
    """``unit/storage/test_log.py::test_x`` is ``unit/log``."""
    path = Path(nodeid.partition("::")[0].removeprefix("tests/"))
    kind = f"{path.parts[0]}/" if len(path.parts) > 1 else ""
    return f"{kind}{path.stem.removeprefix('test_')}"


def _time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

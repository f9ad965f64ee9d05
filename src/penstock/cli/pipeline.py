"""``penstock pipeline run``: a pipeline on an embedded Spark, with live progress."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.cli.live.archive_run import ArchiveRun
from penstock.cli.live.board import Board, Gauge, Service
from penstock.cli.live.display import Display, open_display
from penstock.core.errors import PenstockError
from penstock.core.units import parse_duration
from penstock.spark.access import close_connections
from penstock.spark.cluster import Cluster
from penstock.spark.offsets import Offsets
from penstock.spark.settings import Settings

_TICK_S = 0.25
_BOUNDS_EVERY_TICKS = 4
_PREFLIGHT_TIMEOUT_S = 3
# The source names its options; who runs this command has typed flags. The timeout of the first
# look at the nodes is not the flag's.
_FLAGS = {
    "lookupd_http_address": "--lookupd-http-address",
    "nsqd_http_address": "--nsqd-http-address",
    "maxRecordsPerTrigger": "--max-records-per-trigger",
    'the option "topic"': "--topic",
    "option timeout": "--timeout",
}


def run_archive(
    source: dict[str, str], to: Path, checkpoint: Path, *, available_now: bool, every: str
) -> None:
    """Archive until Ctrl-C, or with ``available_now`` until what is there now is archived.

    Raises PenstockError with one line for the user.
    """
    trigger = query_trigger(available_now, every)
    # A wrong topic or address is said at once, not after Spark's ten seconds of starting.
    _look(source)
    folder = Path(tempfile.mkdtemp(prefix="penstock-pipeline-"))
    run = ArchiveRun(source, to, checkpoint, folder / "spark.log", trigger)
    board = Board(f"archive · {source['topic']} → {to}", services=[Service("Spark")])
    board.gauges.append(Gauge("archived"))
    display = open_display(board)
    view = _View(board, display, Cluster(Settings.parse(source)))
    interrupted = following = False
    try:
        view.show_start(run, folder / "spark.log")
        following = True
        view.follow(run)
    except KeyboardInterrupt:
        interrupted = True
        board.doing = "stopping"
        display.refresh()
    except PenstockError as error:
        if not following:
            raise PenstockError(in_flags(error)) from error
        view.count(run)
        raise PenstockError(f"{in_flags(error)} ({archived(board.gauges[0].done)})") from error
    finally:
        _stop(run, board, display)
    shutil.rmtree(folder, ignore_errors=True)
    print(last_line(board.gauges[0].done, to, interrupted))


def _look(source: dict[str, str]) -> None:
    """Ask the nodes for the topics once. Raises PenstockError."""
    timeout_s = min(_PREFLIGHT_TIMEOUT_S, int(source["timeout"]))
    try:
        Cluster(Settings.parse({**source, "timeout": str(timeout_s)})).bounds()
    except PenstockError as error:
        raise PenstockError(in_flags(str(error).replace("; option timeout)", ")"))) from error
    finally:
        # They have this timeout; later requests make new ones.
        close_connections()


def in_flags(error: PenstockError | str) -> str:
    """What the source says, in the words of this command's flags."""
    said = str(error)
    for option, flag in _FLAGS.items():
        said = said.replace(option, flag)
    return said


def archived(count: int) -> str:
    """How far a run got."""
    return f"{count:,} messages archived in this run"


def last_line(count: int, to: Path, interrupted: bool) -> str:
    """What is left on the screen after a clean end."""
    if count:
        return f"{archived(count)}; they are in {to}"
    return "no messages archived in this run" if interrupted else "nothing new to archive"


def _stop(run: ArchiveRun, board: Board, display: Display) -> None:
    try:
        run.stop()
    finally:
        board.service("Spark").state = "stopped"
        board.doing = ""
        display.close()


def query_trigger(available_now: bool, every: str) -> dict[str, Any]:
    """The trigger for the query. Raises PenstockError for a time that is none."""
    if available_now:
        return {"availableNow": True}
    return {"processingTime": f"{_duration_ns('--trigger', every) // 1_000_000} milliseconds"}


def seconds(flag: str, duration: str) -> str:
    """A duration as the source's options want it. Raises PenstockError for one that is none."""
    return str(max(1, round(_duration_ns(flag, duration) / 1e9)))


def _duration_ns(flag: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise PenstockError(f"{flag}: {error}") from None


def wait_while(step: Callable[[], None], tick: Callable[[], None]) -> None:
    """Run a blocking step in a thread and tick meanwhile; its error is raised here."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        tick()
        thread.join(_TICK_S)
    if failure:
        raise failure[0]


class _View:
    """Keeps the board up to date while the pipeline runs."""

    def __init__(self, board: Board, display: Display, cluster: Cluster) -> None:
        self._board = board
        self._display = display
        self._cluster = cluster
        self._reached: Offsets = {}

    def show_start(self, run: ArchiveRun, log: Path) -> None:
        """Start Spark and the query while the display lives."""
        spark = self._board.service("Spark")
        spark.state, spark.detail = "starting", f"log: {log}"
        self._board.doing = "starting Java and Spark (about 10 s)"
        wait_while(lambda: _ignore(run.start_session()), self._display.refresh)
        self._board.doing = "starting the query"
        wait_while(run.start_query, self._display.refresh)
        spark.state = "running"
        self._board.doing = "waiting for messages"

    def follow(self, run: ArchiveRun) -> None:
        """Show progress until the query ends."""
        gauge = self._board.gauges[0]
        ticks = 0
        active = True
        while active:
            active = run.active
            self.count(run)
            if ticks % _BOUNDS_EVERY_TICKS == 0 or not active:
                self._measure_lag(gauge)
            ticks += 1
            self._display.refresh()
            if active:
                time.sleep(_TICK_S)

    def count(self, run: ArchiveRun) -> None:
        """Take in the batches that were finished since the last call."""
        gauge = self._board.gauges[0]
        for batch in run.finished():
            gauge.set(gauge.done + batch.rows)
            self._reached = batch.end
            self._board.doing = (
                f"batch {batch.batch}: {batch.rows:,} rows at {batch.rows_per_s:,.0f} rows/s"
            )
        gauge.set(gauge.done)

    def _measure_lag(self, gauge: Gauge) -> None:
        """Ask the nodes how far the log goes; a node that does not answer shows in the query."""
        if not self._reached:
            return
        try:
            bounds = self._cluster.bounds()
        except PenstockError:
            return
        lag = sum(
            max(0, bound.end - self._reached.get(place, bound.start))
            for place, bound in bounds.items()
        )
        gauge.total = gauge.done + lag
        self._board.facts["lag"] = f"{lag:,}"


def _ignore(_: object) -> None:
    """The result is not needed."""

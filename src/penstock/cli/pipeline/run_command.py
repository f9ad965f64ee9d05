"""``penstock pipeline run``: a pipeline on an embedded Spark, with live progress.

That of ``run archive`` needs no file: flags say it all.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.cli.live.display import Board, Display, Gauge, Service, open_display
from penstock.cli.live.pipeline_run import PipelineRun
from penstock.cli.pipeline.node_flags import duration_ns
from penstock.cli.pipeline.status import StatusFile
from penstock.cli.shared.stop import Stop
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.counted import counted
from penstock.core.errors import PenstockError, UsageError
from penstock.core.units import SECOND
from penstock.spark.access import close_connections
from penstock.spark.errors import OptionError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Offsets
from penstock.spark.pipelines import archive, own
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import Spec
from penstock.spark.read.progress import BatchDone
from penstock.spark.source_settings import SourceSettings

_TICK_S = 0.25
_LOOK_EVERY_TICKS = 4
_LONG_NS: Final = 10 * SECOND
"""The time after which a batch under way is worth a word, and then each time that it takes more."""
_PREFLIGHT_TIMEOUT_S = 3
_STOPPING: Final = "ending after this batch; Ctrl-C again ends at once"
# The source's errors name its options, but the user of ``run archive`` has typed flags.
_FLAGS = {
    "lookupd_http_address": "--lookupd-http-address",
    "nsqd_http_address": "--nsqd-http-address",
    "maxRecordsPerTrigger": "--max-records-per-trigger",
    'the option "topic"': "--topic",
    "option timeout": "--timeout",
    "tls_v1=true": "--tls-v1",
    "tls_root_ca_file": "--tls-root-ca-file",
    "tls_insecure_skip_verify": "--tls-insecure-skip-verify",
    "tls_server_name": "--tls-server-name",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "tls_v1": "--tls-v1",
}


def run_pipeline(
    pipeline: Pipeline,
    trigger: Mapping[str, Any] | None = None,
    words: Callable[[str], str] = str,
) -> None:
    """Run until Ctrl-C or SIGTERM, or with the trigger ``availableNow`` until all is done.

    ``words`` puts an error into the terms of the command. Raises PenstockError with one line for
    the user.
    """
    spec = pipeline.spec
    # A wrong topic or address is said at once, not after Spark's ten seconds of starting.
    _look(spec, words)
    with StatusFile(spec.run.checkpoint) as status, own.alone(spec.sink), Stop() as stop:
        folder = Path(tempfile.mkdtemp(prefix="penstock-pipeline-"))
        log = folder / "spark.log"
        board = Board(title(spec), services=[Service("Spark", detail=f"log: {log}")])
        view = _View(spec, board, open_display(board), status, stop)
        view.show(PipelineRun(pipeline, log, trigger), words)
    shutil.rmtree(folder, ignore_errors=True)
    print(last_line(spec, view.read.done, view.written.done, stop.asked))


def title(spec: Spec) -> str:
    """``name · source → sink``."""
    return f"{spec.name} · {spec.source} → {spec.sink}"


def read_and_written(read: int, written: int) -> str:
    """The rows of a run, as its last line has them."""
    return f"{counted(read, 'row')} read, {written:,} written"


def last_line(spec: Spec, read: int, written: int, interrupted: bool) -> str:
    """The last line on the screen after a clean end."""
    if read or written:
        return f"{read_and_written(read, written)} to {spec.sink}"
    return "nothing read in this run" if interrupted else "nothing new to read"


def query_trigger(flag: str, available_now: bool, every: str | None) -> dict[str, Any] | None:
    """The trigger that flags ask for, if any. Raises PenstockError for an invalid time."""
    if available_now:
        return {"availableNow": True}
    if every is None:
        return None
    every_ms = duration_ns(flag, every) // 1_000_000
    if every_ms < 0:
        raise UsageError(f"{flag} {every}: a time between batches is 0 or more")
    return {"processingTime": f"{every_ms} milliseconds"}


def wait_while(step: Callable[[], object], tick: Callable[[], None]) -> None:
    """Run a blocking step in a thread and tick meanwhile; its error is raised here."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            failure.append(error)

    # A daemon: Ctrl-C must end the program even if Java never answers.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        tick()
        thread.join(_TICK_S)
    if failure:
        raise failure[0]


def run_archive(
    source: dict[str, str],
    to: str,
    checkpoint: str,
    *,
    format: str = "parquet",
    available_now: bool,
    every: str,
) -> None:
    """Archive until Ctrl-C, or with ``available_now`` until what is there now is archived.

    Raises PenstockError with one line for the user.
    """
    trigger = query_trigger("--trigger", available_now, every)
    pipeline = archive.pipeline(source, to, checkpoint, format)
    try:
        SourceSettings.parse(source)
    except OptionError as error:
        raise PenstockError(in_flags(str(error))) from None
    run_pipeline(pipeline, trigger, in_flags)


def in_flags(text: str) -> str:
    """The source's message in the words of the flags of ``run archive``."""
    for option, flag in _FLAGS.items():
        text = text.replace(option, flag)
    return text


def _look(spec: Spec, words: Callable[[str], str]) -> None:
    """Ask the nodes of an nsq source for the topics once. Raises PenstockError."""
    if not spec.source.reads_log:
        return
    given = SourceSettings.parse(spec.source.options).timeout_s
    timeout = str(round(min(_PREFLIGHT_TIMEOUT_S, given)))
    # The timeout of this first look is not the option's.
    others = {key: each for key, each in spec.source.options.items() if key.lower() != "timeout"}
    # A query that has read before knows nodes that nsqlookupd may have forgotten.
    checkpoint = own.local_folder(spec.run.checkpoint)
    has_read = checkpoint is not None and (checkpoint / "offsets").is_dir()
    try:
        Cluster(SourceSettings.parse(others | {"timeout": timeout})).bounds(required=not has_read)
    except PenstockError as error:
        raise PenstockError(words(str(error).replace("; option timeout)", ")"))) from error
    finally:
        # They have this timeout; later requests make new ones.
        close_connections()


class _View:
    """Board and status, kept up to date while the pipeline runs."""

    def __init__(
        self, spec: Spec, board: Board, display: Display, status: StatusFile, stop: Stop
    ) -> None:
        self.read = Gauge("read")
        self.written = Gauge("written")
        board.gauges += [self.read, self.written]
        self._board = board
        self._display = display
        self._status = status
        self._stop = stop
        self._reached: Offsets = {}
        self._bad = 0
        self._working_since_ns: int | None = None
        self._cluster = None
        if spec.source.reads_log:
            settings = SourceSettings.parse(spec.source.options)
            # The query is patient with a silent node; the display and Ctrl-C do not wait for it.
            patience_s = min(_PREFLIGHT_TIMEOUT_S, settings.timeout_s)
            self._cluster = Cluster(replace(settings, timeout_s=patience_s))
        status.tell(name=spec.name, source=str(spec.source), sink=str(spec.sink))

    def show(self, run: PipelineRun, words: Callable[[str], str]) -> None:
        """Run it from start to end; errors are said in these words."""
        try:
            self._start(run)
            self._follow(run)
        except KeyboardInterrupt:
            self._state("stopping")
        except PenstockError as error:
            self._count(run)
            said = words(str(error))
            if self.read.done or self.written.done:
                said = f"{said} ({read_and_written(self.read.done, self.written.done)} in this run)"
            self._state("failed", error=said)
            raise PenstockError(said) from error
        finally:
            self._close(run)
        self._state("stopped")

    def _start(self, run: PipelineRun) -> None:
        """Start Spark and the query while the display lives."""
        self._state("starting")
        self._board.doing = "starting Java and Spark (about 10 s)"
        wait_while(run.start_session, self._wait)
        self._board.doing = "starting the query"
        wait_while(run.start_query, self._wait)
        self._state("running")
        self._board.doing = "waiting for messages"

    def _wait(self) -> None:
        """A tick of a step that need not be finished once the end is asked for."""
        self._display.refresh()
        if self._stop.asked:
            raise KeyboardInterrupt

    def _follow(self, run: PipelineRun) -> None:
        """Show progress until the queries end, or the batch under way when that is asked for."""
        ticks, active, ending = 0, True, False
        while active:
            if self._stop.asked and not ending:
                ending = True
                run.ask_for_end()
                self._board.doing = _STOPPING
                self._state("stopping")
            active = run.keep_active() and not (ending and run.at_rest)
            self._count(run, quietly=ending)
            if ticks % _LOOK_EVERY_TICKS == 0 or not active:
                self._measure_lag()
                if active and not ending:
                    self._say_how_long(run)
            ticks += 1
            self._display.refresh()
            if active:
                time.sleep(_TICK_S)

    def _count(self, run: PipelineRun, quietly: bool = False) -> None:
        """Take in the batches that were finished since the last call."""
        for batch in run.finished():
            self._working_since_ns = None
            self.read.set(self.read.done + batch.rows)
            self.written.set(self.written.done + batch.written)
            self._bad += batch.bad
            self._reached = batch.end or self._reached
            self._show_batch(batch)
            if not quietly:
                rows = counted(batch.rows, "row")
                self._board.doing = f"batch {batch.batch}: {rows} at {batch.rows_per_s:,.0f} rows/s"
        for gauge in (self.read, self.written):
            gauge.set(gauge.done)
        self._status.tell(
            rows_read=self.read.done,
            rows_written=self.written.done,
            rows_bad=self._bad,
            read_per_s=round(self.read.rate),
            written_per_s=round(self.written.rate),
        )

    def _show_batch(self, batch: BatchDone) -> None:
        facts = self._board.facts
        facts["batch time"] = f"{batch.duration_ms / 1000:,.1f} s"
        if batch.state_rows:
            facts["state"] = (
                f"{counted(batch.state_rows, 'row')}, {batch.state_bytes / 1e6:,.1f} MB"
            )
        if self._bad:
            facts["did not parse"] = f"{self._bad:,}"
        self._status.tell(
            batch=batch.batch,
            batch_ms=batch.duration_ms,
            lag=batch.lag,
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
        )

    def _say_how_long(self, run: PipelineRun) -> None:
        """Say that a batch takes long, as one does whose sink waits for an endpoint."""
        now = SYSTEM_CLOCK.monotonic_ns()
        if not run.working:
            self._working_since_ns = None
            return
        if self._working_since_ns is None:
            self._working_since_ns = now
        took_ns = now - self._working_since_ns
        if took_ns >= _LONG_NS:
            took_s = took_ns // _LONG_NS * _LONG_NS // SECOND
            self._board.doing = (
                f"this batch has been under way for {took_s} s; if it waits, the log says for what"
            )

    def _measure_lag(self) -> None:
        """Ask the nodes how far the log goes; a node that does not answer shows in the query."""
        if not self._reached or self._cluster is None:
            return
        try:
            bounds = self._cluster.bounds()
        except PenstockError:
            return
        lag = sum(
            max(0, bound.end - self._reached.get(place, bound.start))
            for place, bound in bounds.items()
        )
        self.read.total = self.read.done + lag
        self._board.facts["lag"] = f"{lag:,}"
        self._status.tell(lag=lag)

    def _state(self, state: str, **facts: Any) -> None:
        self._board.service("Spark").state = state
        self._status.tell(state=state, at_once=True, **facts)

    def _close(self, run: PipelineRun) -> None:
        try:
            self._display.refresh()
            run.stop()
        finally:
            spark = self._board.service("Spark")
            spark.state = "failed" if spark.state == "failed" else "stopped"
            self._board.doing = ""
            self._display.close()

"""``penstock demo``: a real data set through nsqd into Parquet, shown live, proven at the end."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock.cli.live import archive_file, flights
from penstock.cli.live.children import Child, Children
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.display import Board, Display, Gauge, Service, open_display
from penstock.cli.live.folder import make_folder
from penstock.cli.live.local_nodes import Ports
from penstock.cli.live.proof import verdict
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.counted import counted
from penstock.core.errors import PenstockError
from penstock.spark.requirements import require_packages, require_spark

_TICK_S = 0.1
_LIVE = "penstock.cli.live"
_BATCHES = 16
_NEXT = "Next: publish messages of your own to `penstock up`, as the README shows"
_NEXT_STAY = "Next: `penstock demo --stay` leaves nsqadmin's pages open to look at"


class ProofError(PenstockError):
    """A difference between the archive and what was published."""


def run_demo(rate: int, events: int | None, *, keep: bool, stay: bool) -> None:
    """Run the demo from start to proof. Raises PenstockError with one line for the user."""
    require_packages("the demo needs", (flights.PACKAGE,), ("spark", "demo"))
    require_spark()
    make_folder(Path("run"), "start the demo in another folder")
    # Since Python 3.12 its path is absolute.
    folder = Path("run", Path(tempfile.mkdtemp(prefix="demo-", dir="run")).name)
    board = Board(f"Penstock demo · {folder}")
    display = open_display(board)
    demo = _Demo(folder, rate, min(events or flights.FLIGHTS, flights.FLIGHTS), board, display)
    try:
        _play(demo, board, display, stay=stay)
    except KeyboardInterrupt:
        proven = "" if demo.is_proven else "; nothing was proven"
        print(f"Stopped before the end{proven}. The logs are in {folder}")
        sys.exit(130)
    if keep:
        print(places(folder))
    else:
        shutil.rmtree(folder)
        print("The files of this run are deleted")
    print(_NEXT if stay else _NEXT_STAY)


def _play(demo: _Demo, board: Board, display: Display, *, stay: bool) -> None:
    """Play up to the proof; whatever happens, all is stopped and the terminal as it was."""
    started_ns = SYSTEM_CLOCK.monotonic_ns()
    try:
        carriers = demo.play()
        elapsed_s = (SYSTEM_CLOCK.monotonic_ns() - started_ns) / 1e9
        if stay:
            display.close()
            conclude(carriers, demo.published.done, demo.consumed.done, elapsed_s)
            demo.is_proven = True
            demo.stay()
    finally:
        board.doing = "stopping the services"
        try:
            demo.children.stop()
        finally:
            board.doing = ""
            display.close()
    if not stay:
        conclude(carriers, demo.published.done, demo.consumed.done, elapsed_s)


def places(folder: Path) -> str:
    """The lines that say where what the run has left behind lies."""
    return (
        f"Everything of this run is in {folder}:\n"
        f"  {folder}/archive  the Parquet, in folders of topic, date and hour\n"
        f"  {folder}/archive.toml  the pipeline that wrote it, as `penstock pipeline` runs it\n"
        f"  {folder}/nsqd     nsqd's log of the topic, which can be read again\n"
        f"  {folder}/*.log    what each service said"
    )


class _Demo:
    """The children of one run and what they report."""

    def __init__(
        self, folder: Path, rate: int, events: int, board: Board, display: Display
    ) -> None:
        self._folder = folder
        self._rate = rate
        self._events = events
        self._board = board
        self._display = display
        self._carriers: list[dict[str, Any]] = []
        self._consumed = 0
        self._admin = ""
        self.is_proven = False
        self.children = Children(board, display)
        self.published = Gauge("published", events)
        self.consumed = Gauge("consumed", events)
        self.archived = Gauge("archived", events)
        board.gauges += [self.published, self.consumed, self.archived]

    def play(self) -> list[dict[str, Any]]:
        """Start everything, wait for the proof, and return its rows."""
        daemons = Daemons(self._folder, self._ports(), self._board)
        self._board.services.append(Service("Spark", "starting"))
        self._admin = daemons.admin
        # In steps, as one batch of all that came while Spark started would show nothing meanwhile.
        batch = -(-self._events // _BATCHES)
        archive_file.write(self._folder, flights.TOPIC, daemons.lookupd_http, batch)
        # Spark needs ten seconds to start and the data one, so both begin before anything else.
        spark = self._talker(
            "Spark", "archive_job", self._on_spark, str(self._folder), daemons.lookupd_http
        )
        replay = self._talker(
            "replay",
            "replay",
            self._on_replay,
            daemons.nsqd_tcp,
            str(self._rate),
            str(self._events),
        )
        daemons.start(self.children.all)
        daemons.create_topic(flights.TOPIC)
        daemons.hold_for_archive(flights.TOPIC)
        spark.tell("begin")
        self._talker("tally", "tally", self._on_tally, daemons.nsqd_tcp, str(self._events))
        self._until(lambda: {"replay", "tally"} <= self.children.ready)
        replay.tell("begin")
        spark.tell(f"finish {self._events}")
        self._until(lambda: {"replay", "tally", "Spark"} <= self.children.finished)
        return self._carriers

    def stay(self) -> None:
        """Leave the services up until Ctrl-C. Raises ServiceError when one dies."""
        try:
            print(f"nsqadmin is at {self._admin} until Ctrl-C", flush=True)
            while True:
                self.children.check()
                time.sleep(_TICK_S)
        except KeyboardInterrupt:
            print("stopping the services", flush=True)

    def _ports(self) -> Ports:
        ports = Ports()
        taken = ports.taken()
        if not taken:
            return ports
        ports = Ports.free()
        (nsqd,) = ports.nsqds
        self._display.note(
            f"port {', '.join(map(str, taken))} in use: this demo takes free ones, "
            f"{nsqd.tcp} and {nsqd.http} for nsqd, "
            f"{ports.lookupd_tcp} and {ports.lookupd_http} for nsqlookupd, "
            f"{ports.admin_http} for nsqadmin"
        )
        return ports

    def _talker(
        self, name: str, module: str, handle: Callable[[dict[str, Any]], None], *arguments: str
    ) -> Child:
        log = self._folder / f"{name.lower()}.log"
        return self.children.start_talker(name, f"{_LIVE}.{module}", arguments, log, handle)

    def _until(self, reached: Callable[[], bool]) -> None:
        """Keep the display alive until something is so. Raises ServiceError when a child dies."""
        while not reached():
            self.children.check()
            # The consumer's report may come before that of the replay, which publishes first.
            self.consumed.done = min(self._consumed, self.published.done)
            behind = self.published.done - self.archived.done
            self._board.facts["lag"] = f"{max(0, behind):,}"
            for gauge in self._board.gauges:
                gauge.set(gauge.done)
            self._display.refresh()
            time.sleep(_TICK_S)

    def _on_replay(self, facts: dict[str, Any]) -> None:
        self.published.set(facts.get("published", self.published.done))

    def _on_tally(self, facts: dict[str, Any]) -> None:
        self._consumed = facts.get("consumed", self._consumed)

    def _on_spark(self, facts: dict[str, Any]) -> None:
        service = self._board.service("Spark")
        service.state = facts.get("state", service.state)
        self._board.doing = facts.get("doing", self._board.doing)
        if "archived" in facts:
            self.archived.set(facts["archived"])
            rows = counted(facts["rows"], "row")
            service.detail = f"batch {facts['batch']}: {rows} at {facts['rate']:,.0f} rows/s"
        self._carriers = facts.get("proof", self._carriers)


def conclude(
    carriers: list[dict[str, Any]], published: int, consumed: int, elapsed_s: float
) -> None:
    """Print the table, the proof and the time it took. Raises ProofError when it fails."""
    console = Console()
    console.print("\nMean departure delay by carrier, computed by Spark from the Parquet:")
    console.print(_table(carriers))
    kept, sentence = verdict(carriers, published)
    if not kept:
        raise ProofError(f"the proof failed: {sentence}")
    line = f"[bold green]Proven:[/] {sentence} ({consumed:,} consumed live)."
    # A terminal gets whole words a line, a file the whole sentence in one line.
    console.print(line, highlight=False, soft_wrap=not console.is_terminal)
    print(f"From start to proof: {elapsed_s:.1f} s")


def _table(carriers: list[dict[str, Any]]) -> Table:
    names = flights.airlines()
    table = Table()
    table.add_column("carrier")
    table.add_column("flights", justify="right")
    table.add_column("mean delay", justify="right")
    for row in carriers:
        delay = "-" if row["delay"] is None else f"{row['delay']:.1f} min"
        name = names.get(row["carrier"], row["carrier"])
        table.add_row(name, f"{row['events']:,}", delay)
    return table

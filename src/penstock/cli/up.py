"""``penstock up``: the services of the demo without the replay, until Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from penstock.cli.live import archive_file
from penstock.cli.live.children import Children
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.display import Board, Display, Gauge, Service, open_display
from penstock.cli.live.folder import make_folder
from penstock.cli.live.local_nodes import Ports, left_out
from penstock.cluster.blocking import Daemon
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.errors import PenstockError
from penstock.spark.requirements import require_spark

# Spark takes seconds to notice a new topic; until then nothing of it may go.
_RETENTION = "10m"
_ARCHIVE_JOB = "penstock.cli.live.archive_job"
_TICK_S = 0.25
_STATS_EVERY_TICKS = 4


def run_up(folder: Path, *, with_spark: bool, free_ports: bool = False, nodes: int = 1) -> None:
    """Run until Ctrl-C. Raises PenstockError when something cannot start or dies."""
    ports = Ports.free(nodes) if free_ports else Ports.require(nodes)
    make_folder(folder, "take another with --data-path")
    board = Board(f"Penstock · {folder} · Ctrl-C stops")
    display = open_display(board)
    services = _Services(folder, ports, board, display)
    try:
        services.start(with_spark)
        services.watch()
    except KeyboardInterrupt:
        board.doing = "stopping"
        display.refresh()
    finally:
        _stop(services, board, display)


def _stop(services: _Services, board: Board, display: Display) -> None:
    try:
        services.children.stop()
    finally:
        board.doing = ""
        display.refresh()
        display.close()


class _Services:
    """The daemons, and Spark if wanted."""

    def __init__(self, folder: Path, ports: Ports, board: Board, display: Display) -> None:
        self._folder = folder
        self._board = board
        self._display = display
        self._daemons = Daemons(folder, ports, board, [f"--retention-time={_RETENTION}"])
        self.children = Children(board, display)
        self._published = Gauge("published")
        self._archived = Gauge("archived")
        board.gauges.append(self._published)

    def start(self, with_spark: bool) -> None:
        """Start the daemons and return when they answer; Spark goes on starting."""
        self._name_left_out()
        self._daemons.start(self.children.all)
        self._display.refresh()
        self._name_addresses()
        if with_spark:
            self._start_spark()

    def watch(self) -> None:
        """Show what happens, for ever. Raises ServiceError when a child dies."""
        ticks = 0
        while True:
            self.children.check()
            if ticks % _STATS_EVERY_TICKS == 0:
                self._measure()
            for gauge in self._board.gauges:
                gauge.set(gauge.done)
            self._display.refresh()
            ticks += 1
            time.sleep(_TICK_S)

    def _name_left_out(self) -> None:
        """Say which nodes of an earlier run stay down with the messages that they have."""
        numbers = left_out(self._folder, len(self._daemons.nodes))
        if numbers:
            names = ", ".join(f"nsqd-{number}" for number in numbers)
            self._display.note(
                f"not started: {names}, with the messages in {self._folder}; "
                f"--nodes {numbers[-1]} starts all"
            )

    def _name_addresses(self) -> None:
        """Say where several nodes are used, of which none stands for the others."""
        nodes = self._daemons.nodes
        if len(nodes) > 1:
            self._display.note(
                f"publish to {', '.join(node.tcp for node in nodes)}; "
                f"consume through nsqlookupd at {self._daemons.lookupd_http}"
            )

    def _start_spark(self) -> None:
        try:
            require_spark()
        except PenstockError as error:
            self._display.note(f"without an archive: {error}")
            return
        lookupd = self._daemons.lookupd_http
        file = archive_file.write(self._folder, "*", lookupd)
        self._board.services.append(Service("Spark", "starting", f"archive: edit {file}"))
        self._board.gauges.append(self._archived)
        arguments = [str(self._folder), lookupd]
        log = self._folder / "spark.log"
        child = self.children.start_talker("Spark", _ARCHIVE_JOB, arguments, log, self._on_spark)
        child.tell("begin")

    def _on_spark(self, facts: dict[str, Any]) -> None:
        service = self._board.service("Spark")
        service.state = facts.get("state", service.state)
        self._board.doing = "" if "state" in facts else facts.get("doing", self._board.doing)
        self._archived.set(facts.get("archived", self._archived.done))

    def _measure(self) -> None:
        """Ask each nsqd for its counts; a moment without an answer does not matter."""
        topics: list[dict[str, Any]] = []
        try:
            for node in self._daemons.nodes:
                with Daemon(node.http, 2.0) as nsqd:
                    topics += nsqd.get("/stats", format="json", include_clients="false")["topics"]
        except UpstreamError:
            return
        self._published.set(sum(topic["message_count"] for topic in topics))
        self._board.facts["topics"] = f"{len({topic['topic_name'] for topic in topics}):,}"
        depth = sum(channel["depth"] for topic in topics for channel in topic["channels"])
        self._board.facts["waiting in channels"] = f"{depth:,}"

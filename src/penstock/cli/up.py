"""``penstock up``: the services of the demo without the replay, until Ctrl-C."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from penstock.cli.live.board import Board, Gauge, Service
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.display import Display, open_display
from penstock.cli.live.ports import Ports
from penstock.cli.live.reports import Reports
from penstock.cli.live.services import Child, ServiceError, start, stop_all

# Spark takes seconds to notice a new topic; until then nothing of it may go.
_RETENTION = "10m"
_TICK_S = 0.25
_STATS_EVERY_TICKS = 4


def run_up(folder: Path, *, with_spark: bool) -> None:
    """Run until Ctrl-C. Raises PenstockError when something cannot start or dies."""
    ports = Ports.require()
    folder.mkdir(parents=True, exist_ok=True)
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
        services.stop()
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
        self._children: list[Child] = []
        self._reports = Reports()
        self._published = Gauge("published")
        self._archived = Gauge("archived")
        board.gauges.append(self._published)

    def start(self, with_spark: bool) -> None:
        """Start the daemons and return when they answer; Spark goes on starting."""
        self._daemons.start(self._children)
        self._display.refresh()
        if with_spark:
            self._start_spark()

    def watch(self) -> None:
        """Show what happens, for ever. Raises ServiceError when a child dies."""
        ticks = 0
        while True:
            self._reports.deliver()
            for child in self._children:
                child.require_alive()
            if ticks % _STATS_EVERY_TICKS == 0:
                self._measure()
            for gauge in self._board.gauges:
                gauge.set(gauge.done)
            self._display.refresh()
            ticks += 1
            time.sleep(_TICK_S)

    def stop(self) -> None:
        """End all children, the daemons last."""
        for name in stop_all(self._children):
            self._display.note(f"{name} did not stop by itself and was killed")
        for service in self._board.services:
            service.state = "stopped"

    def _start_spark(self) -> None:
        self._board.services.append(Service("Spark", "starting", "archive of every topic"))
        self._board.gauges.append(self._archived)
        arguments = ["*", self._daemons.lookupd_http, str(self._folder)]
        log = self._folder / "spark.log"
        child = start("Spark", "penstock.cli.live.archive_job", arguments, log, talks=True)
        self._children.append(child)
        assert child.process.stdout is not None
        self._reports.follow(child.process.stdout, self._on_spark)
        child.tell("begin")

    def _on_spark(self, facts: dict[str, Any]) -> None:
        service = self._board.service("Spark")
        service.state = facts.get("state", service.state)
        self._board.doing = "" if "state" in facts else facts.get("doing", self._board.doing)
        self._archived.set(facts.get("archived", self._archived.done))
        if "error" in facts:
            raise ServiceError(f"Spark: {facts['error']}")

    def _measure(self) -> None:
        """Ask nsqd for its counts; a moment without an answer does not matter."""
        url = f"http://{self._daemons.nsqd_http}/stats?format=json&include_clients=false"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                topics = json.load(answer)["topics"]
        except OSError:
            return
        self._published.set(sum(topic["message_count"] for topic in topics))
        self._board.facts["topics"] = f"{len(topics):,}"
        depth = sum(channel["depth"] for topic in topics for channel in topic["channels"])
        self._board.facts["waiting in channels"] = f"{depth:,}"

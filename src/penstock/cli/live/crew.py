"""Everything that ``up`` or ``demo`` runs: started, watched while it reports, stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.cli.live.board import Board
from penstock.cli.live.display import Display
from penstock.cli.live.reports import Reports
from penstock.cli.live.services import Child, ServiceError, start, stop_all

# A daemon that goes takes those connected to it along; after this time it is seen to be gone too.
_GRACE_S = 0.5


class Crew:
    """The children of one command. ``children`` is in the order in which they were started."""

    def __init__(self, board: Board, display: Display) -> None:
        self.children: list[Child] = []
        self.ready: set[str] = set()
        self.finished: set[str] = set()
        self._board = board
        self._display = display
        self._reports = Reports()
        self._talkers: set[str] = set()
        self._silent: set[str] = set()
        self._errors: dict[str, str] = {}

    def start_talker(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        handle: Callable[[dict[str, Any]], None],
    ) -> Child:
        """Start a child that reports; ``check`` calls ``handle`` with each report.

        ``state="ready"`` puts it among ``ready``, ``finished=True`` among ``finished``: from then
        on it may end. ``error`` is why it is about to end before its time.
        """
        child = start(name, module, arguments, log, talks=True)
        self.children.append(child)
        self._talkers.add(name)

        def note(facts: dict[str, Any]) -> None:
            if facts.get("state") == "ready":
                self.ready.add(name)
            if facts.get("finished"):
                self.finished.add(name)
            if "error" in facts:
                self._errors[name] = str(facts["error"])
            handle(facts)

        assert child.process.stdout is not None
        self._reports.follow(child.process.stdout, note, lambda: self._silent.add(name))
        return child

    def check(self) -> None:
        """Handle what was reported. Raises ServiceError that names a child lost, a daemon first."""
        self._reports.deliver()
        if not self._lost():
            return
        time.sleep(_GRACE_S)
        self._reports.deliver()
        lost = self._lost()[0]
        for service in self._board.services:
            if service.name == lost.name:
                service.state = "failed"
        if lost.name in self._errors:
            raise ServiceError(f"{lost.name}: {self._errors[lost.name]}")
        lost.require_alive()

    def stop(self) -> None:
        """End the children, the last started first; a KeyboardInterrupt kills those left."""
        for name in stop_all(self.children):
            self._display.note(f"{name} did not stop by itself and was killed")
        for service in self._board.services:
            if service.state != "failed":
                service.state = "stopped"

    def _lost(self) -> list[Child]:
        """Children that ended, or said that they will, before their time; daemons first."""
        lost = [child for child in self.children if self._is_lost(child)]
        return sorted(lost, key=lambda child: child.name in self._talkers)

    def _is_lost(self, child: Child) -> bool:
        if child.name in self._errors:
            return True
        if not child.ended or child.name in self.finished:
            return False
        # One that ended well may have said that it finished, in a report still to come.
        return child.process.returncode != 0 or child.name in self._silent | self._daemons()

    def _daemons(self) -> set[str]:
        return {child.name for child in self.children} - self._talkers

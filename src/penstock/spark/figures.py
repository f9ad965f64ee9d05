"""Figures of a running query, gathered from Spark's reports, as nodes are told them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import MINUTE, SECOND
from penstock.spark.access import Access
from penstock.spark.offsets import Position
from penstock.spark.read.progress import behind, observed, position, rows_read

PLACES_MAX: Final = 100
"""Nodes that a query reports to."""
# As nsqd takes them (penstock.log_api.pipeline_status).
ANY_TOPIC: Final = "*"
_GROUPS_MAX: Final = 1000
_NAME_MAX: Final = 256
_PLACE_MAX: Final = 1024
_SQL_MAX: Final = 16_384
_ERROR_MAX: Final = 4096


def _nobody() -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """Facts about a query that Spark's reports do not contain.

    ``nodes`` finds addresses to tell beside those that the query has read from. It is called
    often, in the thread that tells, and may raise. ``access`` is the way to ask them. ``groups``
    are topics and groups that the query will have, told until its first batch says which.
    """

    source: str = ""
    sink: str = ""
    sql: str = ""
    access: Access | None = None
    nodes: Callable[[], Collection[str]] = _nobody
    groups: tuple[tuple[str, str], ...] = ()


class QueryFigures:
    """One run of a query; for several threads."""

    def __init__(
        self, id: str, name: str | None, about: QueryFacts, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.id = id
        self.about = about
        self.state = "running"
        self.read_nodes: set[str] = set()
        self._clock = clock
        self._lock = threading.Lock()
        self._name = _printable(name or id)[:_NAME_MAX]
        self._error = ""
        self._started = clock.wall_ns() / SECOND
        self._read, self._written, self._bad = _Count(clock), _Count(clock), _Count(clock)
        self._groups: set[tuple[str, str]] = set()
        self._last: dict[str, int | float] = {"batches": 0, "batch": -1}

    def take(self, report: Mapping[str, Any]) -> None:
        """Count a ``StreamingQueryProgress``."""
        with self._lock:
            self._take(report)

    def _take(self, report: Mapping[str, Any]) -> None:
        rows = rows_read(report)
        for source in report["sources"]:
            self._note(position(source["endOffset"]))
        self._read.add(rows)
        self._written.add(observed(report, "output", "rows") or _sunk(report))
        self._bad.add(observed(report, "input", "bad"))
        state = report.get("stateOperators") or ()
        self._last = {
            "batches": self._last["batches"] + (report["batchId"] > self._last["batch"]),
            "batch": int(report["batchId"]),
            "batch_rows": rows,
            "batch_ms": int(report["batchDuration"]),
            "lag": sum(behind(report).values()),
            "state_rows": sum(int(each["numRowsTotal"]) for each in state),
            "state_bytes": sum(int(each["memoryUsedBytes"]) for each in state),
        }

    def end(self, error: str = "") -> None:
        """The query has ended, by this error if there is one."""
        with self._lock:
            self.state = "failed" if error else "stopped"
            self._error = error[:_ERROR_MAX]

    @property
    def runs(self) -> bool:
        return self.state == "running"

    def status(self) -> dict[str, Any]:
        """A ``PipelineStatus`` as nodes take it."""
        with self._lock:
            return self._status()

    def _status(self) -> dict[str, Any]:
        topics = sorted({topic for topic, _ in self._groups})
        return {
            "id": self.id,
            "name": self._name,
            "state": self.state,
            "source": (self.about.source or f"nsq {','.join(topics)}")[:_PLACE_MAX],
            "sink": self.about.sink[:_PLACE_MAX],
            "sql": self.about.sql[:_SQL_MAX],
            "groups": sorted(self._groups or self.about.groups)[:_GROUPS_MAX],
            "started": round(self._started, 3),
            "rows_read": self._read.total,
            "rows_written": self._written.total,
            "rows_bad": self._bad.total,
            "error": self._error,
            "read_per_s": self._read.rate if self.runs else 0.0,
            "written_per_s": self._written.rate if self.runs else 0.0,
            **self._last,
        }

    def _note(self, end: Position) -> None:
        """Note the places that the query reads, and its group."""
        for topic, node, _ in end.offsets:
            # A broker that name servers lead to has a name without a port, and no HTTP.
            if ":" in node and len(self.read_nodes) < PLACES_MAX:
                self.read_nodes.add(node)
            if end.group and len(self._groups) < _GROUPS_MAX:
                self._groups.add((topic, end.group))


class _Count:
    """A number that grows, and its growth a second over about the last minute."""

    def __init__(self, clock: Clock) -> None:
        self.total = 0
        self._clock = clock
        self._marks = deque([(clock.monotonic_ns(), 0)])

    def add(self, count: int) -> None:
        self.total += count
        self._marks.append((self._clock.monotonic_ns(), self.total))
        self._forget()

    @property
    def rate(self) -> float:
        self._forget()
        began, before = self._marks[0]
        # The first batch, a moment after the start, must not look like a great rate.
        took_ns = max(self._clock.monotonic_ns() - began, SECOND)
        return round((self.total - before) * SECOND / took_ns, 3)

    def _forget(self) -> None:
        since = self._clock.monotonic_ns() - MINUTE
        while len(self._marks) > 1 and self._marks[1][0] <= since:
            self._marks.popleft()


def _sunk(report: Mapping[str, Any]) -> int:
    """Rows that the sink says it was given; it says -1 if it does not count."""
    return max(0, int(report["sink"]["numOutputRows"] or 0))


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)

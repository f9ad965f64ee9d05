"""Tells nodes how the queries that read them do, for /stats and nsqadmin's pages.

    from penstock.spark.listener import attach
    attach(spark)

Nothing here fails or slows a query: a report is put down and told from a thread of its own, and
what cannot be told is logged once. Of reports that wait only each query's newest is kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.nsq.client.log import BatchProgress, NodeUnreachable
from penstock.spark.access import Access, connect, secured
from penstock.spark.once import Once
from penstock.spark.progress import position
from penstock.spark.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

EVERY_S: Final = 1.0
"""A query is told of this often at most."""
PLACES_MAX: Final = 100
"""Topics on nodes that one report goes to."""
_TIMEOUT_S: Final = 1.0
_LEFT_ALONE_NS: Final = 30 * SECOND
_PLAIN: Final = Access()
_WAITING_MAX: Final = 1000
_NAME_MAX: Final = 256
"""Characters of a query's name that nsqd takes."""

_log = logging.getLogger("penstock.spark")
_attached: WeakSet[SparkSession] = WeakSet()


def attach(spark: SparkSession, source: Mapping[str, str] | None = None) -> None:
    """From now on the progress of this session's queries is told; once is enough.

    ``source`` are options of ``format("nsq")``, of which TLS and ``auth_secret`` count.
    """
    if spark in _attached:
        return
    _attached.add(spark)
    try:
        access = Settings.parse(source).access if source else Access()
        spark.streams.addListener(ProgressListener(access))
    except Exception as error:  # the queries matter more, whatever it is
        _log.warning("the progress of queries will not be told: %s", error)


class ProgressListener(StreamingQueryListener):
    """What Spark calls."""

    def __init__(self, access: Access = _PLAIN) -> None:
        self._teller = Teller(access)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing yet: what a query reads stands in its first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        try:
            self._teller.tell(str(event.progress.id), list(reports(event.progress)))
        except Exception as error:  # raised into Java it would be a stack trace for every batch
            self._teller.complain(f"progress of a query is not told: {error}")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The last batch stays what is known."""


class Report(NamedTuple):
    """The progress of one group on one node."""

    topic: str
    node: str
    group: str
    progress: BatchProgress


def reports(report: Mapping[str, Any]) -> Iterator[Report]:
    """What a ``StreamingQueryProgress`` tells of topics that were read in its batch.

    Sources other than ours are passed over.
    """
    name = str(report["name"] or report["id"])[:_NAME_MAX]
    name = "".join(each if each.isprintable() else "?" for each in name)
    duration_ms = max(1, report["batchDuration"])
    for source in report["sources"]:
        end, group = position(source["endOffset"])[:2]
        start = position(source["startOffset"]).offsets
        rows = source["numInputRows"]
        progress = BatchProgress(
            name, report["batchId"], rows, rows * 1000 / duration_ms, duration_ms
        )
        read = {place[:2] for place, offset in end.items() if offset != start.get(place, 0)}
        # A broker that name servers lead to has a name without a port, and takes no reports.
        told = [each for each in sorted(read) if ":" in each[1]]
        for topic, node in told[:PLACES_MAX]:
            yield Report(topic, node, group, progress)


class Teller:
    """Tells reports to nodes; its thread lives while there is something to tell."""

    def __init__(self, access: Access = _PLAIN) -> None:
        self._access = access.hurried(_TIMEOUT_S)
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Report]] = {}
        self._runs = False
        self._until: dict[str, int] = {}
        self._once = Once()

    def tell(self, query: str, found: list[Report]) -> None:
        """The newest reports of a query; returns at once."""
        if not found:
            return
        with self._lock:
            if query not in self._waiting and len(self._waiting) >= _WAITING_MAX:
                return
            self._waiting[query] = found
            if self._runs:
                return
            self._runs = True
        threading.Thread(target=self._run, name="penstock-progress", daemon=True).start()

    def complain(self, what: str, level: int = logging.WARNING) -> None:
        """Log this, the first time."""
        self._once.warn(what, level)

    def _run(self) -> None:
        while waiting := self._taken():
            for found in waiting:
                for each in found:
                    self._post(each)
            time.sleep(EVERY_S)

    def _taken(self) -> list[list[Report]]:
        with self._lock:
            waiting = list(self._waiting.values())
            self._waiting.clear()
            self._runs = bool(waiting)
        return waiting

    def _post(self, report: Report) -> None:
        node, now = report.node, SYSTEM_CLOCK.monotonic_ns()
        if now < self._until.get(node, now):
            return
        try:
            with connect(secured(node, self._access), self._access) as log:
                log.tell_progress(report.topic, report.group, report.progress)
        except NodeUnreachable as error:  # which the query itself tells, if it matters
            self._until[node] = SYSTEM_CLOCK.monotonic_ns() + _LEFT_ALONE_NS
            self.complain(f"progress of group {report.group} is not told: {error}", logging.INFO)
        except Exception as error:  # the next may be told
            self.complain(f"progress of group {report.group} is not told: {error}")

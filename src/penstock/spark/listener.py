"""Reports of how queries are, sent to nodes for nsqadmin's pages and Prometheus.

    from penstock.spark.listener import attach
    attach(spark)

Nothing here fails or slows a query: figures are put down and sent from a separate thread, and what
cannot be sent is logged once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.log_api.errors import NodeUnreachable
from penstock.spark.access import Access, connect, secured
from penstock.spark.errors import explain
from penstock.spark.figures import PLACES_MAX, QueryFacts, QueryFigures
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

EVERY_S: Final = 1.0
"""Seconds between two reports of a query, at least."""
ALIVE_NS: Final = 10 * SECOND
"""Time between two reports of a query that runs, at most."""
END_S: Final = 3.0
"""The time that the end of a process waits for nodes to know how its queries ended."""
QUERIES_MAX: Final = 1000
_TIMEOUT_S: Final = 1.0
_LEFT_ALONE_NS: Final = 30 * SECOND
_PLAIN: Final = Access()

logger = logging.getLogger("penstock.spark")
_attached: WeakKeyDictionary[SparkSession, ProgressListener | None] = WeakKeyDictionary()


def attach(spark: SparkSession, source: Mapping[str, str] | None = None) -> ProgressListener | None:
    """From now on nodes are told how this session's queries are; once is enough.

    ``source`` are options of ``format("nsq")``, of which TLS and ``auth_secret`` count. None where
    Spark takes no listener.
    """
    if spark not in _attached:
        _attached[spark] = None
        try:
            listener = ProgressListener(SourceSettings.parse(source).access if source else Access())
            spark.streams.addListener(listener)
            _attached[spark] = listener
        except Exception as error:  # the queries matter more, whatever it is
            logger.warning("the progress of queries will not be reported: %s", error)
    return _attached[spark]


def farewell(spark: SparkSession, error: str = "") -> None:
    """Before the process ends: wait, a few seconds at most, until nodes know how queries ended.

    Those that still run have failed if there is an ``error``.
    """
    listener = _attached.get(spark)
    if listener is not None:
        listener.farewell(error)


class ProgressListener(StreamingQueryListener):
    """The listener that Spark calls."""

    def __init__(self, access: Access = _PLAIN) -> None:
        self._teller = StatusSender(access)
        self._queries: dict[str, QueryFigures] = {}
        self._expected: dict[str, QueryFacts] = {}

    def expect(self, name: str, about: QueryFacts) -> None:
        """The query of this name is to start."""
        self._expected[name] = about

    def farewell(self, error: str) -> None:
        """See the function."""
        for query in self._queries.values():
            if error and (query.runs or query.state == "failed"):
                query.end(error)
                self._teller.tell(query)
        self._teller.settle(END_S)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        try:
            self._teller.tell(self._begun(str(event.id), event.name))
        except Exception as error:  # raised into Java it would be a stack trace for every batch
            self._teller.complain(f"the start of a query is not reported: {error}")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        try:
            report = event.progress
            query = self._queries.get(str(report.id)) or self._begun(str(report.id), report["name"])
            query.take(report)
            self._teller.tell(query)
        except Exception as error:
            self._teller.complain(f"the progress of a query is not reported: {error}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: that the query runs is told anyway."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        try:
            query = self._queries[str(event.id)]
            if query.runs:
                query.end(explain(Exception(event.exception)) if event.exception else "")
                self._teller.tell(query)
        except Exception as error:
            self._teller.complain(f"the end of a query is not reported: {error}")

    def _begun(self, id: str, name: str | None) -> QueryFigures:
        if id not in self._queries and len(self._queries) >= QUERIES_MAX:
            ended = [each for each, query in self._queries.items() if not query.runs]
            del self._queries[ended[0] if ended else next(iter(self._queries))]
        query = QueryFigures(id, name, self._expected.pop(name or "", QueryFacts()))
        self._queries[id] = query
        return query


class StatusSender:
    """A reporter to nodes; its thread lives while a query runs or there is something to tell."""

    def __init__(self, access: Access = _PLAIN) -> None:
        self._access = access
        self._changed = threading.Condition()
        self._queries: dict[str, QueryFigures] = {}
        self._news: set[str] = set()
        self._told_ns: dict[str, int] = {}
        self._runs = self._hurries = False
        self._until: dict[str, int] = {}
        self._once = WarnOnce()

    def tell(self, query: QueryFigures) -> None:
        """Tell how this query is, soon; returns at once."""
        with self._changed:
            self._queries[query.id] = query
            self._news.add(query.id)
            if self._runs:
                self._changed.notify_all()
                return
            self._runs = True
        threading.Thread(target=self._run, name="penstock-progress", daemon=True).start()

    def settle(self, timeout_s: float) -> None:
        """Wait until all queries have ended and that is told, or the time is over."""
        with self._changed:
            self._hurries = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._runs, timeout_s)
            self._hurries = False

    def complain(self, what: str, level: int = logging.WARNING) -> None:
        """Log this, the first time."""
        self._once.warn(what, level)

    def _run(self) -> None:
        while (due := self._due()) is not None:
            for query in due:
                self._tell(query)
            with self._changed:
                self._changed.wait_for(lambda: self._hurries and self._news, EVERY_S)

    def _due(self) -> list[QueryFigures] | None:
        """The queries to report now; None if no thread is needed any more."""
        now = SYSTEM_CLOCK.monotonic_ns()
        with self._changed:
            running = {id for id, query in self._queries.items() if query.runs}
            # One that was never told is among the news.
            late = {id for id in running if now - self._told_ns.get(id, now) >= ALIVE_NS}
            due = [self._queries[id] for id in sorted(self._news | late)]
            self._news.clear()
            if not due and not running:
                self._runs = False
                self._queries.clear()
                self._told_ns.clear()
                self._changed.notify_all()
                return None
            self._told_ns |= {query.id: now for query in due}
            return due

    def _tell(self, query: QueryFigures) -> None:
        status = query.status()
        access = (query.about.access or self._access).hurried(_TIMEOUT_S)
        for node in sorted(self._nodes(query))[:PLACES_MAX]:
            self._post(node, access, status)

    def _nodes(self, query: QueryFigures) -> set[str]:
        try:
            return query.read_nodes | set(query.about.nodes())
        except Exception as error:  # which the query itself tells, if it matters
            self.complain(f"the nodes of a query are not known: {explain(error)}", logging.INFO)
            return set(query.read_nodes)

    def _post(self, node: str, access: Access, status: Mapping[str, object]) -> None:
        now = SYSTEM_CLOCK.monotonic_ns()
        # One thread tells all nodes: one that is down would cost it `_TIMEOUT_S` at each report.
        if now < self._until.get(node, now):
            return
        try:
            with connect(secured(node, access), access) as log:
                log.tell_pipeline(status)
        except NodeUnreachable as error:  # which the query itself tells, if it matters
            self._until[node] = SYSTEM_CLOCK.monotonic_ns() + _LEFT_ALONE_NS
            self.complain(f"the status of {status['name']} is not reported: {error}", logging.INFO)
        except Exception as error:  # the next may be told
            self.complain(f"the status of {status['name']} is not reported: {error}")

"""The metrics of a name server, and the time until it is ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sized
from typing import Final

from penstock.core.clock import Clock
from penstock.core.metrics import mqnamesrv as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.core.units import SECOND
from penstock.rocketmq.namesrv.routes import Routes

PATIENCE_S: Final = 45
"""Brokers register every 30 s. Java's 5.x waits this long, if told to wait, before it answers."""


class NamesrvVitals:
    """Parts of a name server's ``Vitals``."""

    def __init__(self, routes: Routes, connections: Sized, clock: Clock) -> None:
        self._routes = routes
        self._connections = connections
        self._clock = clock
        self._ready_at = clock.monotonic_ns() + PATIENCE_S * SECOND

    def missing(self) -> list[str]:
        """A line while the routes are those of an empty cluster and brokers may still come.

        Clients ask one name server each, and an empty one tells them that no topic exists.
        """
        if self._routes.registration_count or self._clock.monotonic_ns() >= self._ready_at:
            return []
        return [f"NOK - no broker has registered within {PATIENCE_S} s of the start yet"]

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the routes and of their clients."""
        routes = self._routes
        for metric, value in (
            (metrics.BROKERS, len(routes.live)),
            (metrics.CLUSTERS, len(routes.clusters)),
            (metrics.TOPICS, len(routes.topics)),
            (metrics.CONNECTIONS, len(self._connections)),
            (metrics.REGISTRATIONS, routes.registration_count),
        ):
            yield Samples.single(metric, value)
        gone, asked = Samples(metrics.BROKERS_GONE), Samples(metrics.ROUTES)
        for reason, count in routes.gone_counts.items():
            gone.add(count, labels({"reason": reason}))
        for found, count in routes.route_counts.items():
            asked.add(count, labels({"found": str(found).lower()}))
        yield gone
        yield asked

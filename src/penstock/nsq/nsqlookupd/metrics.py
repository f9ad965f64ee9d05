"""The metrics of nsqlookupd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sized

from penstock.core.metrics import nsqlookupd as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.nsq.nsqlookupd.registry import Registry

LookupCounts = dict[bool, int]
"""The number of look-ups that found their topic (True), and of those that did not."""


class LookupdMetrics:
    """The figures of one nsqlookupd; ``source`` is for its ``Vitals``."""

    def __init__(self, registry: Registry, sessions: Sized) -> None:
        self.lookups: LookupCounts = {True: 0, False: 0}
        self._registry = registry
        self._sessions = sessions

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the registry and of its clients."""
        figures = self._registry.figures()
        for metric, value in (
            (metrics.PRODUCERS, figures.producers),
            (metrics.SILENT_PRODUCERS, figures.silent_producers),
            (metrics.TOPICS, figures.topics),
            (metrics.CHANNELS, figures.channels),
            (metrics.EMPTY_TOPICS, figures.empty_topics),
            (metrics.TOMBSTONES, figures.tombstones),
            (metrics.CONNECTIONS, len(self._sessions)),
            (metrics.PRODUCERS_GONE, self._registry.gone_count),
        ):
            yield Samples.single(metric, value)
        lookups = Samples(metrics.LOOKUPS)
        for found, count in self.lookups.items():
            lookups.add(count, labels({"found": str(found).lower()}))
        yield lookups

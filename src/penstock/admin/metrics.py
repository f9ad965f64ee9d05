"""The metrics of nsqadmin, and the time until it is ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from penstock.admin.notifications import Notifier
from penstock.core.clock import Clock
from penstock.core.metrics import nsqadmin as metrics
from penstock.core.metrics.exposition import Samples
from penstock.core.units import SECOND

if TYPE_CHECKING:
    from penstock.admin.history.poller import Poller


class AdminVitals:
    """Parts of an nsqadmin's ``Vitals``."""

    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self.poller: Poller | None = None
        """The poller of the nodes, if there is a history."""
        self._notifier = notifier
        self._clock = clock

    def missing(self) -> list[str]:
        """A line until the first look at the nodes has ended: the pages have no figures before.

        A look that finds nobody is one too, as operators need the pages then.
        """
        if self.poller is None or self.poller.looks.count:
            return []
        return ["NOK - the first look at the nodes has not ended yet"]

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics; those of looks only if there is a history."""
        if self.poller is not None:
            looks = self.poller.looks
            yield Samples.single(metrics.LOOKS, looks.count)
            if looks.count:
                yield Samples.single(metrics.NODES, looks.nodes)
                yield Samples.single(metrics.FAILURES, looks.failures)
                yield Samples.single(metrics.LOOK_SECONDS, looks.took_ns / SECOND)
                age_ns = self._clock.monotonic_ns() - looks.ended_ns
                yield Samples.single(metrics.LOOK_AGE, age_ns / SECOND)
        yield Samples.single(metrics.NOTIFICATIONS, self._notifier.posted_count)
        yield Samples.single(metrics.NOTIFICATION_FAILURES, self._notifier.failed_count)

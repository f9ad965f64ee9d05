"""The metrics of RocketMQ's port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sized
from typing import TYPE_CHECKING

from penstock.core.metrics import mqbroker as metrics
from penstock.core.metrics.exposition import Samples, labels

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller


class BrokerMetrics:
    """The figures of one broker beside those of its node; ``source`` is for its ``Vitals``.

    All are totals that the broker keeps anyway, added to once for a batch.
    """

    def __init__(self, controller: Controller, connections: Sized) -> None:
        self._controller = controller
        self._connections = connections

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the port."""
        controller, totals = self._controller, self._controller.stats.totals
        name_servers = controller.name_servers
        waiting = [stored - done for done, stored in controller.schedule.progress().values()]
        for metric, value in (
            (metrics.PUT_MESSAGES, totals.put_messages),
            (metrics.PUT_BYTES, totals.put_bytes),
            (metrics.PUT_FAILURES, totals.put_failures),
            (metrics.GOT_MESSAGES, totals.got_messages),
            (metrics.HELD_PULLS, len(controller.held_pulls)),
            (metrics.DELAYED, sum(waiting)),
            (metrics.TIMERS, len(controller.timers)),
            (metrics.CONNECTIONS, len(self._connections)),
            (metrics.NAME_SERVERS, len(name_servers.addresses)),
            (metrics.NAME_SERVERS_CONNECTED, len(name_servers.connected)),
        ):
            yield Samples.single(metric, value)
        pulls = Samples(metrics.PULLS)
        for found, count in ((True, totals.found), (False, totals.missed)):
            pulls.add(count, labels({"found": str(found).lower()}))
        yield pulls

"""The metrics of RocketMQ's port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sized
from typing import TYPE_CHECKING

from penstock.core.metrics import mqbroker as metrics
from penstock.core.metrics.exposition import Samples, labels

if TYPE_CHECKING:
    from penstock.rocketmq.broker.delays.schedule import Schedule
    from penstock.rocketmq.broker.delays.timers import Timers
    from penstock.rocketmq.broker.pull.long_poll import HeldPulls
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.stats import Stats


class BrokerMetrics:
    """The figures of one broker beside those of its node; ``source`` is for its ``Vitals``.

    All are totals that the broker keeps anyway, added to once for a batch.
    """

    def __init__(
        self,
        stats: Stats,
        schedule: Schedule,
        timers: Timers,
        held_pulls: HeldPulls,
        name_servers: NameServers,
        connections: Sized,
    ) -> None:
        self._stats = stats
        self._schedule = schedule
        self._timers = timers
        self._held_pulls = held_pulls
        self._name_servers = name_servers
        self._connections = connections

    async def source(self) -> AsyncIterator[Samples]:
        """All metrics of the port."""
        totals, name_servers = self._stats.totals, self._name_servers
        waiting = [stored - done for done, stored in self._schedule.progress().values()]
        for metric, value in (
            (metrics.PUT_MESSAGES, totals.put_messages),
            (metrics.PUT_BYTES, totals.put_bytes),
            (metrics.PUT_FAILURES, totals.put_failures),
            (metrics.GOT_MESSAGES, totals.got_messages),
            (metrics.HELD_PULLS, len(self._held_pulls)),
            (metrics.DELAYED, sum(waiting)),
            (metrics.TIMERS, len(self._timers)),
            (metrics.CONNECTIONS, len(self._connections)),
            (metrics.NAME_SERVERS, len(name_servers.addresses)),
            (metrics.NAME_SERVERS_CONNECTED, len(name_servers.connected)),
        ):
            yield Samples.single(metric, value)
        pulls = Samples(metrics.PULLS)
        for found, count in ((True, totals.found), (False, totals.missed)):
            pulls.add(count, labels({"found": str(found).lower()}))
        yield pulls

"""The name server as a whole: its tables behind one port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sized
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import PenstockError
from penstock.core.metrics import mqnamesrv as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.core.units import SECOND
from penstock.net import tcp
from penstock.net.address import join_host_port
from penstock.net.tasks import spawn
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.net.vitals.vitals import Vitals
from penstock.rocketmq.namesrv.kv_config import KvConfig
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.namesrv.processor import Processor
from penstock.rocketmq.namesrv.routes import Routes
from penstock.rocketmq.remoting import RemotingServer
from penstock.storage.files.disk import Disk, OsDisk

logger = logging.getLogger("penstock.mqnamesrv")

_SCAN_S_MIN: Final = 0.1

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


class NameServer:
    """A running name server; ``start`` makes one, ``close`` ends it."""

    def __init__(self, settings: NamesrvSettings, clock: Clock, disk: Disk) -> None:
        self.settings = settings
        self.routes = Routes(clock)
        kv = KvConfig(disk, settings.kv_config_path)
        self._server = RemotingServer(
            Processor(settings, self.routes, kv, disk),
            settings.server_channel_max_idle_time_seconds,
            tls=settings.server_tls(),
            tls_only=settings.tls_mode == "enforcing",
        )
        self._vitals = Vitals("mqnamesrv", clock)
        own = NamesrvVitals(self.routes, self._server.connections, clock)
        self._vitals.checks.append(own.missing)
        self._vitals.sources.append(own.source)
        self._monitoring: MonitoringPort | None = None
        self._listener: tcp.Listener
        self._scan: asyncio.Task[None]

    @classmethod
    async def start(
        cls, settings: NamesrvSettings, clock: Clock = SYSTEM_CLOCK, disk: Disk | None = None
    ) -> NameServer:
        """Open the ports. Raises PenstockError with one line for the user, nothing left open."""
        server = cls(settings, clock, disk or OsDisk())
        address = join_host_port(settings.bind_address, settings.listen_port)
        try:
            if settings.monitoring_address:
                server._monitoring = await MonitoringPort.open(
                    settings.monitoring_address, server._vitals, logger
                )
            server._listener = await tcp.listen(server._server, address, "TCP", logger)
        except tcp.ListenError as error:
            if server._monitoring is not None:
                await server._monitoring.close()
            raise PenstockError(
                f"the name server cannot start: {error}; listenPort, bindAddress "
                "and monitoringAddress set others"
            ) from error
        server._vitals.start()
        server._scan = spawn(server._scan_brokers(), "scan of brokers")
        return server

    @property
    def port(self) -> int:
        return self._listener.port

    async def _scan_brokers(self) -> None:
        while True:
            interval = self.settings.scan_not_active_broker_interval / 1000
            await asyncio.sleep(max(_SCAN_S_MIN, interval))
            for gone in self.routes.drop_expired():
                logger.warning(
                    "the broker %s of cluster %s was silent for %d ms: taken out",
                    gone.broker,
                    gone.cluster,
                    gone.expiry_ms,
                )

    async def close(self) -> None:
        """Stop listening and end all connections."""
        self._scan.cancel()
        self._vitals.close()
        if self._monitoring is not None:
            await self._monitoring.close()
        await self._listener.close()
        self._server.close_connections()
        logger.info("bye")

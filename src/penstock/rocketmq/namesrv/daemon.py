"""The name server as a whole: its tables behind one port."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import PenstockError
from penstock.net import tcp
from penstock.net.address import join_host_port
from penstock.net.tasks import spawn
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.net.vitals.vitals import Vitals
from penstock.rocketmq.namesrv.kv_config import KvConfig
from penstock.rocketmq.namesrv.metrics import NamesrvVitals
from penstock.rocketmq.namesrv.processor import Processor
from penstock.rocketmq.namesrv.routes import Routes
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.remoting import RemotingServer
from penstock.storage.files.disk import Disk, OsDisk

logger = logging.getLogger("penstock.mqnamesrv")

_SCAN_S_MIN: Final = 0.1


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
            raise PenstockError(f"the name server cannot start: {error}; listenPort, bindAddress "
                                "and monitoringAddress set others") from error  # fmt: skip
        server._vitals.start()
        server._scan = spawn(server._scan_brokers(), "scan of brokers")
        return server

    @property
    def monitoring_port(self) -> int:
        """The port of /metrics and /ready; 0 without one."""
        return self._monitoring.port if self._monitoring is not None else 0

    @property
    def port(self) -> int:
        return self._listener.port

    async def _scan_brokers(self) -> None:
        while True:
            interval = self.settings.scan_not_active_broker_interval / 1000
            await asyncio.sleep(max(_SCAN_S_MIN, interval))
            for gone in self.routes.drop_expired():
                logger.warning("the broker %s of cluster %s was silent for %d ms: taken out",
                             gone.broker, gone.cluster, gone.expiry_ms)  # fmt: skip

    async def close(self) -> None:
        """Stop listening and end all connections."""
        self._scan.cancel()
        self._vitals.close()
        if self._monitoring is not None:
            await self._monitoring.close()
        await self._listener.close()
        self._server.close_connections()
        logger.info("bye")

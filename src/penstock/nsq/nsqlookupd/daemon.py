"""nsqlookupd as a whole: a registry, a TCP listener for nsqd, an HTTP listener for everyone."""

from __future__ import annotations

import logging
import os

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.gojson import dumps
from penstock.core.settings.version import NSQ_VERSION, version_line
from penstock.net import tcp
from penstock.net.budget import Memory, MemoryQueue
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.service import HttpServer
from penstock.net.vitals.vitals import Vitals
from penstock.nsq.nsqlookupd.http import LookupApi
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.nsq.nsqlookupd.metrics import LookupdMetrics
from penstock.nsq.nsqlookupd.registry import Registry
from penstock.nsq.nsqlookupd.tcp import LookupServer

logger = logging.getLogger("penstock.nsqlookupd")


class Nsqlookupd:
    """A running nsqlookupd; ``start`` makes one, ``close`` ends it."""

    def __init__(self, options: LookupdOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._registry = Registry(
            clock, options.inactive_producer_timeout, options.tombstone_lifetime
        )
        memory = Memory.of(options)
        self._lookups = LookupServer(self._registry, self._describe, MemoryQueue(memory.requests))
        guard = Guard.of(options, options.broadcast_address)
        metrics = LookupdMetrics(self._registry, self._lookups.sessions)
        router = LookupApi(self._registry, guard, metrics.lookups).router()
        self._vitals = Vitals("nsqlookupd", clock)
        self._vitals.sources.append(metrics.source)
        self._vitals.add_routes(router, metrics=options.metrics)
        self._http = HttpServer(router, log=logger, clock=clock, memory=memory)
        self._tcp_listener: tcp.Listener
        self._http_listener: tcp.Listener

    @classmethod
    async def start(cls, options: LookupdOptions, clock: Clock = SYSTEM_CLOCK) -> Nsqlookupd:
        """Open both ports; ``ListenError`` when one cannot be had, with neither left open."""
        daemon = cls(options, clock)
        logger.info(version_line("nsqlookupd"))
        for address in (options.tcp_address, options.http_address):
            tcp.check_free(address)  # before the log says of one that it is open
        daemon._tcp_listener = await tcp.listen(daemon._lookups, options.tcp_address, "TCP", logger)
        try:
            daemon._http_listener = await tcp.listen(
                daemon._http, options.http_address, "HTTP", logger
            )
        except tcp.ListenError:
            await daemon._tcp_listener.close()
            raise
        daemon._vitals.start()
        return daemon

    @property
    def tcp_port(self) -> int:
        return self._tcp_listener.port

    @property
    def http_port(self) -> int:
        return self._http_listener.port

    async def close(self) -> None:
        """Stop listening and end all connections."""
        self._vitals.close()
        await self._tcp_listener.close()
        await self._http_listener.close()
        self._lookups.close_connections()
        self._http.close_connections()
        logger.info("bye")

    def _describe(self) -> bytes:
        return dumps(
            {
                "broadcast_address": self._options.broadcast_address,
                "hostname": os.uname().nodename,
                "http_port": self.http_port,
                "tcp_port": self.tcp_port,
                "version": NSQ_VERSION,
            }
        )

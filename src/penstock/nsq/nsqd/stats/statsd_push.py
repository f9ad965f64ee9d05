"""nsqd's statistics, pushed to a statsd at intervals without ever being in nsqd's way."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.core.reasons import reason
from penstock.core.units import SECOND
from penstock.net.address import split_host_port
from penstock.net.http.server.v1_api import Query
from penstock.net.tasks import spawn
from penstock.node.ports import Ports
from penstock.nsq.nsqd.stats import stats
from penstock.nsq.nsqd.stats.stat_sources import StatSources
from penstock.nsq.nsqd.stats.statsd import StatsdLines, packets, resolved_prefix

logger = logging.getLogger("penstock.nsqd")

DIAL_S: Final = 1.0
"""The longest look-up of statsd's host, as Go's: nsqd's end waits for it."""
_REST_S: Final = 1.0
"""The datagrams of one push are spread over the interval less this."""


class StatsdPush:
    """The push that ``--statsd-*`` asks for, first after one interval."""

    def __init__(self, sources: StatSources, ports: Ports) -> None:
        self._sources = sources
        self._options = sources.options
        self._clock = sources.node.clock
        self._ports = ports
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if there is an address to send to."""
        if self._options.statsd_address:
            self._task = spawn(self._run(), "statsd")

    async def close(self) -> None:
        """End; what is left of a push goes out at once."""
        self._stopping.set()
        if self._task is not None:
            await self._task
            logger.info("STATSD: closing")

    async def _run(self) -> None:
        options, clock = self._options, self._clock
        prefix = resolved_prefix(
            options.statsd_prefix, options.broadcast_address, self._ports.broadcast_http
        )
        lines = StatsdLines(prefix, exclude_ephemeral=options.statsd_exclude_ephemeral)
        # The figures of /stats without a row for each connection, of which statsd shows none.
        query = Query({"include_clients": "0", "include_mem": str(int(options.statsd_mem_stats))})
        interval = options.statsd_interval
        due = clock.monotonic_ns()
        while True:
            due = max(due + interval, clock.monotonic_ns())  # a late push pushes no other
            await self._pause((due - clock.monotonic_ns()) / SECOND)
            if self._stopping.is_set():
                return
            try:
                await self._push(lines, query, max(0.0, interval / SECOND - _REST_S))
            except Exception:  # figures for a dashboard; nothing here may cost a message
                logger.exception("STATSD: push failed")

    async def _push(self, lines: StatsdLines, query: Query, seconds: float) -> None:
        address = self._options.statsd_address
        try:
            transport = await _connect(address)
        except (OSError, ValueError) as error:
            logger.warning(
                "STATSD: cannot send to %s, trying again in the next interval - %s",
                address,
                reason(error),
            )
            return
        logger.info("STATSD: pushing stats to %s", address)
        try:
            datagrams = packets(
                lines.of(stats.collect(self._sources, query)), self._options.statsd_udp_packet_size
            )
            clock = self._clock
            began = clock.monotonic_ns()
            for number, datagram in enumerate(datagrams, 1):
                transport.sendto(datagram)
                passed = (clock.monotonic_ns() - began) / SECOND
                await self._pause(seconds * number / len(datagrams) - passed)
        finally:
            transport.close()

    async def _pause(self, seconds: float) -> None:
        """Wait that time, or until nsqd stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass


async def _connect(address: str) -> asyncio.DatagramTransport:
    host, port = split_host_port(address)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(DIAL_S):
        transport, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(host or "localhost", port)
        )
    return transport

"""Asking nodes for their figures, each at its own pace, and nsqlookupds for the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.cli.shared.node_selection import NodeSelection
from penstock.cli.top.all_nodes import Cluster
from penstock.cluster.exchange import of_lookupd
from penstock.cluster.figures import TARGET, NodeFigures, ReportedNode, figures_of
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import AdvertisedNodes
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND
from penstock.net.tasks import spawn

TIMEOUT_S: Final = 3.0
LOOKUP_EVERY_S: Final = 15.0
FORGET_AFTER_S: Final = 60.0


class Poller:
    """The figures of a cluster, kept fresh until the poller is stopped.

    A node that hangs or is gone holds nobody else up. One that nsqlookupd no longer names is
    forgotten when it has not answered for a minute.
    """

    def __init__(
        self,
        http: HttpClient,
        cluster: Cluster,
        where: NodeSelection,
        interval_s: float,
        changed: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._http = http
        self._cluster = cluster
        self._direct = list(where.nsqds)
        self._lookupds = list(where.lookupds)
        self._interval_s = interval_s
        self._changed = changed
        self._clock = clock
        self._named: set[str] = set()
        self._answered_ns: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def once(self) -> None:
        """Ask everybody once."""
        await self._discover()
        await asyncio.gather(*(self._look(address) for address in self._addresses()))

    def start(self) -> None:
        """Ask again and again from now on, in the background."""
        if self._lookupds:
            self._tasks[""] = spawn(self._discover_for_ever(), "top: nsqlookupd")
        self._follow_all()

    async def stop(self) -> None:
        """Ask no more."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _addresses(self) -> list[str]:
        return sorted({*self._direct, *self._named})

    def _follow_all(self) -> None:
        for address in self._addresses():
            if address not in self._tasks:
                self._tasks[address] = spawn(self._follow(address), f"top: {address}")

    async def _discover_for_ever(self) -> None:
        while True:
            await self._discover()
            self._follow_all()
            self._changed()
            # While no node is known there is nothing else to show, and one may just be starting.
            await asyncio.sleep(LOOKUP_EVERY_S if self._named else self._interval_s)

    async def _discover(self) -> None:
        """Ask every nsqlookupd; what one of them cannot say now, it has said before."""
        answers = await asyncio.gather(*(self._nodes_of(each) for each in self._lookupds))
        troubles = [answer for answer in answers if isinstance(answer, str)]
        named = {node for answer in answers if not isinstance(answer, str) for node in answer}
        self._named = named if not troubles else self._named | named
        self._cluster.troubles[:] = troubles

    async def _nodes_of(self, lookupd: str) -> set[str] | str:
        """The nodes that one nsqlookupd knows, or why it does not say."""
        try:
            told = await self._http.get(of_lookupd(lookupd), "/nodes", AdvertisedNodes)
        except UpstreamError as error:
            return f"nsqlookupd {without_secrets(lookupd)}: {error.short}"
        return {node.http_address for node in told.producers or ()}

    async def _follow(self, address: str) -> None:
        # As if it had answered: a new node has its minute, too.
        self._answered_ns[address] = self._clock.monotonic_ns()
        while not self._is_forgotten(address):
            begun = self._clock.monotonic_ns()
            await self._look(address)
            self._changed()
            took_s = (self._clock.monotonic_ns() - begun) / SECOND
            # A node that takes longer than the interval is left alone for a tenth of it.
            await asyncio.sleep(max(self._interval_s / 10, self._interval_s - took_s))
        self._tasks.pop(address, None)
        self._cluster.drop(without_secrets(address))

    def _is_forgotten(self, address: str) -> bool:
        silent_ns = self._clock.monotonic_ns() - self._answered_ns[address]
        return address not in self._addresses() and silent_ns > FORGET_AFTER_S * SECOND

    async def _look(self, address: str) -> None:
        figures = await self._figures(address)
        if not figures.error:
            self._answered_ns[address] = figures.at_ns
        self._cluster.put(figures)

    async def _figures(self, address: str) -> NodeFigures:
        shown = without_secrets(address)
        try:
            told = await self._http.get(address, TARGET, ReportedNode)
        except UpstreamError as error:
            return NodeFigures(shown, self._clock.monotonic_ns(), error=error.short)
        return figures_of(shown, self._clock.monotonic_ns(), told)

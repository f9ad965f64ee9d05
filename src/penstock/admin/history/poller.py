"""A poller that looks at all nodes again and again, for the history and those who watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from penstock.admin.history.history import History
from penstock.admin.history.sample import TARGET, Sample, answer_type, sample_of
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings, ask_all
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.tasks import spawn

logger = logging.getLogger("penstock.nsqadmin")


@dataclass(slots=True)
class PollCounts:
    """The number of looks, and the last of them."""

    count: int = 0
    nodes: int = 0
    failures: int = 0
    """Daemons that did not answer."""
    took_ns: int = 0
    ended_ns: int = 0
    """The time of the end by the monotonic clock."""


class Poller:
    """``start`` begins, ``close`` ends it. ``interval`` in seconds."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        interval: float,
        clock: Clock,
        refreshed: Callable[[float, str], None],
        beside: Callable[[float, Iterable[str]], Awaitable[None]],
    ) -> None:
        """``refreshed`` is told the time, in unix seconds, and the warnings of every refresh.

        ``beside`` looks at the same nodes for what is not in their figures.
        """
        self._cluster = cluster
        self._history = history
        self._interval = interval
        self._clock = clock
        self._refreshed = refreshed
        self._beside = beside
        self._task: asyncio.Task[None] | None = None
        self.looks = PollCounts()

    def start(self) -> None:
        """From now on all nodes are looked at once in every interval."""
        self._task = spawn(self._run(), "history")

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def refresh(self) -> str:
        """Look once, and return the warnings."""
        began_ns = self._clock.monotonic_ns()
        warnings, failures = Warnings(), 0
        samples: dict[str, Sample] = {}
        addresses: list[str] = []
        try:
            producers = await self._cluster.producers(warnings, with_topics=False)
            addresses = list(dict.fromkeys(each.http_address for each in producers))
            if addresses:
                found = await ask_all("nsqd", addresses, self._look)
                warnings.add(found.errors)
                samples = dict(found.answers)
            message = warnings.message
        except NoAnswerError as error:
            message, failures = f"UPSTREAM_ERROR: {error}", len(addresses) or 1
        time = self._clock.wall_ns() / SECOND
        # Also without samples: the nodes that are away are noted there.
        self._history.take(time, samples.items())
        self._refreshed(time, message)
        await self._beside(time, addresses)
        self._ended(began_ns, len(addresses), failures + len(warnings.errors))
        return message

    def _ended(self, began_ns: int, nodes: int, failures: int) -> None:
        now = self._clock.monotonic_ns()
        self.looks = PollCounts(self.looks.count + 1, nodes, failures, now - began_ns, now)

    async def _look(self, address: str) -> Sample:
        return sample_of(await self._cluster.http.get_as(address, TARGET, answer_type))

    async def _run(self) -> None:
        told = ""
        while True:
            began = self._clock.monotonic_ns()
            try:
                message = await self.refresh()
            except Exception as error:  # of ours: one look is lost, not the history
                message = f"no figures this time: {type(error).__name__}: {error}"
            if message != told:
                logger.warning("history: %s", message or "all nodes answer again")
                told = message
            took = (self._clock.monotonic_ns() - began) / SECOND
            # Where a look takes longer than the interval, nodes get a pause all the same.
            await asyncio.sleep(max(self._interval - took, self._interval / 10))

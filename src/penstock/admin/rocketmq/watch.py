"""Looks at RocketMQ's brokers again and again, so that pages have rates and an hour at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.consumer_groups import all_groups
from penstock.admin.rocketmq.group_rates import GroupRates
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.rocketmq.topics import all_topics
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.errors import PenstockError
from penstock.net.tasks import spawn
from penstock.rocketmq.client.admin.topology import MASTER

logger = logging.getLogger("penstock.nsqadmin")

FIGURES: Final = ("in", "out", "lag")
"""Messages a second into and out of all masters, and the lag of all groups."""
_HOUR_S: Final = 3600.0
_POINTS_MAX: Final = 720


class RocketWatch:
    """``interval`` is the time between looks, in seconds; 0: none."""

    def __init__(self, servers: Servers, rates: GroupRates, interval: float) -> None:
        self._servers = servers
        self._rates = rates
        self._interval = interval
        points = min(max(int(_HOUR_S / interval), 1), _POINTS_MAX) if interval else 0
        self._points: deque[tuple[float, ...]] = deque(maxlen=points)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look now, and then once in every interval."""
        if self._interval:
            self._task = spawn(self._run(), "rocketmq history")

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def series(self) -> dict[str, list[float]]:
        """``times`` in unix seconds, and the figures at each of them."""
        columns = list(zip(*self._points, strict=True)) or [()] * (1 + len(FIGURES))
        return dict(zip(("times", *FIGURES), map(list, columns), strict=True))

    async def look(self) -> None:
        """Add a point. Raises NoAnswerError."""
        found: tuple[dict[str, Any], ...] = await asyncio.gather(
            all_groups(self._servers, self._rates),
            cluster(self._servers),
            all_topics(self._servers),  # for the rates of its queues
        )
        masters = [row for row in found[1]["brokers"] if row["id"] == MASTER]
        time = self._servers.now_ms / 1000
        while self._points and self._points[-1][0] >= time:  # the clock was set back
            self._points.pop()
        self._points.append(
            (
                time,
                sum(row["in"] or 0.0 for row in masters),
                sum(row["out"] or 0.0 for row in masters),
                float(sum(row["lag"] for row in found[0]["groups"])),
            )
        )

    async def _run(self) -> None:
        told = ""
        while True:
            problem = ""
            try:
                await self.look()
            except (NoAnswerError, PenstockError) as error:
                problem = str(error)
            except Exception as error:  # of ours: one look is lost, not the history
                problem = f"{type(error).__name__}: {error}"
            if problem != told:
                logger.warning("history of RocketMQ: %s", problem or "the servers answer again")
                told = problem
            await asyncio.sleep(self._interval)

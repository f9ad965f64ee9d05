"""The metrics of a node that is copied, and of one that is a copy."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import Any

from penstock.core.metrics import replication as metrics
from penstock.core.metrics.exposition import Samples, labels
from penstock.replication.state import Role

Figures = Callable[[], dict[str, Any] | None]


class ReplicationMetrics:
    """The metrics made of a node's part of /stats; ``source`` is for its ``Vitals``."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    async def source(self) -> AsyncIterator[Samples]:
        """All of them; none of a node that was never copied."""
        figures = self._figures()
        if figures is None:
            return
        yield Samples.single(metrics.PRIMARY, figures["role"] is Role.PRIMARY)
        yield Samples.single(metrics.EPOCH, figures["epoch"])
        if figures["role"] is Role.FOLLOWER:
            lag_seconds = figures["lag_seconds"]
            yield Samples.single(metrics.FOLLOWING, figures["error"] is None)
            yield Samples.single(metrics.LAG_MESSAGES, figures["lag_messages"])
            yield Samples.single(metrics.LAG_BYTES, figures["lag_bytes"])
            yield Samples.single(
                metrics.LAG_SECONDS, math.nan if lag_seconds is None else lag_seconds
            )
        if "replicas_acked" in figures:
            yield Samples.single(metrics.REPLICAS_ACKED, figures["replicas_acked"])
            yield Samples.single(metrics.REPLICAS_IN_FORCE, figures["replicas_in_force"])
            yield Samples.single(metrics.REPLICAS_WAITING, figures["messages_waiting"])
        messages, nbytes = Samples(metrics.FOLLOWER_MESSAGES), Samples(metrics.FOLLOWER_BYTES)
        asked = Samples(metrics.FOLLOWER_ASKED)
        for each in figures.get("followers", ()):
            shown = labels({"follower": each["address"]})
            messages.add(each["lag_messages"], shown)
            nbytes.add(each["lag_bytes"], shown)
            asked.add(each["asked_seconds_ago"], shown)
        yield messages
        yield nbytes
        yield asked

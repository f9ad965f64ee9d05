"""Statuses that pipelines have reported to this node, kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from penstock.core.clock import Clock
from penstock.core.units import HOUR, SECOND
from penstock.nsq.pipeline_status import PipelineStatus, ToldStatus

PIPELINES_MAX: Final = 500
"""The most pipelines that are kept; then the one that was silent for longest goes."""
KEPT_NS: Final = 24 * HOUR
"""The time after which a silent pipeline is forgotten."""


class Pipelines:
    """The last status of each pipeline, in the order in which they told."""

    def __init__(self, clock: Clock, lag_of: Callable[[str, str], int | None]) -> None:
        """``lag_of(topic, group)`` is a group's lag on this node, None if it is not here."""
        self._clock = clock
        self._lag_of = lag_of
        self._known: dict[str, tuple[int, ToldStatus]] = {}

    def told(self, status: PipelineStatus) -> None:
        """A pipeline has told its status. The last error stays until there is another."""
        _, before = self._known.pop(status.id, (0, None))
        kept = ToldStatus(**structs.asdict(status))
        if status.error and (before is None or status.error != before.error):
            kept.error_at = round(self._clock.wall_ns() / SECOND, 3)
        elif before is not None:
            kept.error, kept.error_at = before.error, before.error_at
        self._known[status.id] = (self._clock.monotonic_ns(), kept)
        if len(self._known) > PIPELINES_MAX:
            del self._known[next(iter(self._known))]

    def all(self) -> list[ToldStatus]:
        """Every pipeline, with its age and its lag as they are now."""
        now = self._clock.monotonic_ns()
        for id, (at, _) in list(self._known.items()):
            if now - at <= KEPT_NS:
                break
            del self._known[id]
        for at, status in self._known.values():
            status.age = round((now - at) / SECOND, 3)
            here = [lag for each in status.groups if (lag := self._lag_of(*each)) is not None]
            status.lag_is_here = bool(here)
            status.lag = sum(here) if here else status.lag
        return [status for _, status in self._known.values()]

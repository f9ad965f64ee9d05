"""Statuses that pipelines have reported to this node, kept in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import structs

from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.units import HOUR, SECOND
from penstock.log_api.pipeline_status import ANY_TOPIC, PipelineStatus, ReportedStatus

PIPELINES_MAX: Final = 500
"""The most pipelines that are kept; then the one that was silent for longest goes."""
KEPT_NS: Final = 24 * HOUR
"""The time after which a silent pipeline is forgotten."""


class Lags(Protocol):
    """The lags of groups: ``node.log_groups.LogGroups``."""

    def lag(self, topic: Topic, name: str) -> int | None: ...


class GroupsHere:
    """The groups of pipelines on this node."""

    def __init__(self, topics: Mapping[str, Topic], lags: Lags) -> None:
        self._topics = topics
        self._lags = lags

    def lag(self, topic: str, group: str) -> int | None:
        """A group's lag; None if it is not here."""
        found = self._topics.get(topic)
        return None if found is None else self._lags.lag(found, group)

    def meant(self, topic: str, group: str) -> list[tuple[str, str]]:
        """The pair itself; where any topic is meant, one for each that has the group here."""
        if topic != ANY_TOPIC:
            return [(topic, group)]
        return [(name, group) for name, each in self._topics.items() if group in each.groups]


class Pipelines:
    """The last status of each pipeline, in the order in which they told."""

    def __init__(self, clock: Clock, groups: GroupsHere) -> None:
        self._clock = clock
        self._groups = groups
        self._known: dict[str, tuple[int, ReportedStatus]] = {}

    def told(self, status: PipelineStatus) -> None:
        """A pipeline has told its status. The last error stays until there is another."""
        _, before = self._known.pop(status.id, (0, None))
        kept = ReportedStatus(**structs.asdict(status))
        if status.error and (before is None or status.error != before.error):
            kept.error_at = round(self._clock.wall_ns() / SECOND, 3)
        elif before is not None:
            kept.error, kept.error_at = before.error, before.error_at
        if before is not None:
            kept.groups = kept.groups or before.groups  # before its first batch a run knows none
            kept.restarts = before.restarts + (kept.started != before.started)
        self._known[status.id] = (self._clock.monotonic_ns(), kept)
        if len(self._known) > PIPELINES_MAX:
            del self._known[next(iter(self._known))]

    def all(self) -> list[ReportedStatus]:
        """Every pipeline, with its age and its lag as they are now."""
        now = self._clock.monotonic_ns()
        for id, (at, _) in list(self._known.items()):
            # They are in the order in which they told, so all that follow are younger.
            if now - at <= KEPT_NS:
                break
            del self._known[id]
        return [self._now(status, now - at) for at, status in self._known.values()]

    def _now(self, status: ReportedStatus, age_ns: int) -> ReportedStatus:
        groups = [pair for each in status.groups for pair in self._groups.meant(*each)]
        here = [lag for each in groups if (lag := self._groups.lag(*each)) is not None]
        return structs.replace(
            status,
            groups=groups,
            age=round(age_ns / SECOND, 3),
            lag=sum(here) if here else status.lag,
            lag_is_here=bool(here),
        )

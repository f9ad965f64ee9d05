"""Groups that read the log over HTTP: how far behind, and how fast.

Where a group is stands in its topic, on disk. What is kept here is of this process and small: when
the group moved, and the owner that moved it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct

from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.units import HOUR, MINUTE, SECOND

_STEP_NS: Final = 5 * SECOND
_LEAST_NS: Final = SECOND
"""A rate over less than this would be a peak."""


STALE_NS: Final = 24 * HOUR
"""The age at which a group that lags behind is shown as stale; or 80 % of the age at which it is
deleted, if that is less."""
OWNED_NS: Final = MINUTE
"""The time since an owner's last commit in which no other owner may move the group."""


class LogGroup(Struct):
    """A group on one topic. ``lag`` in messages, ``rate`` messages a second, times in seconds.

    ``age`` is the time since it moved last or had nothing to read, ``expires_in`` what is left of
    ``--group-retention``, None if that does not delete it. A group is ``stale`` if it holds the log
    and has not moved for long.
    """

    name: str
    committed: int
    lag: int
    rate: float
    owner: str | None = None
    age: int = 0
    expires_in: int | None = None
    stale: bool = False


class GroupOwner(NamedTuple):
    """The owner that has a group, and the seconds since its last commit."""

    owner: str
    seconds: float


class Pace:
    """The speed of an offset over about the last minute."""

    def __init__(self, now_ns: int, offset: int) -> None:
        """Times are monotonic."""
        # Where it was at the end of a step of time, by the beginning of that step.
        self._marks = deque([(now_ns, offset)])

    def moved(self, now_ns: int, offset: int) -> None:
        """The offset is another."""
        marks = self._marks
        if len(marks) == 1 or now_ns - marks[-1][0] >= _STEP_NS:
            marks.append((now_ns, offset))
        else:
            marks[-1] = marks[-1][0], offset
        self._forget(now_ns)

    def rate(self, now_ns: int, offset: int) -> float:
        """Offsets a second, up to now; never less than 0."""
        self._forget(now_ns)
        began, before = self._marks[0]
        took = min(max(now_ns - began, _LEAST_NS), MINUTE)
        return max(offset - before, 0) * SECOND / took

    def _forget(self, now_ns: int) -> None:
        while len(self._marks) > 1 and self._marks[1][0] <= now_ns - MINUTE:
            self._marks.popleft()


class _Known:
    """Facts about a group since the start of the process."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.owner: str | None = None
        self.owned_ns = 0  # monotonic, of the owner's last commit


class LogGroups:
    """The groups of all topics; what is known of a topic's goes with the topic."""

    def __init__(self, clock: Clock, retention_ns: int = 0) -> None:
        """``retention_ns``: the age at which groups are deleted; 0: at none."""
        self._clock = clock
        self._retention_ns = retention_ns
        self._stale_ns = min(STALE_NS, retention_ns * 4 // 5) if retention_ns else STALE_NS
        self._left_out: tuple[str, ...] = ()
        self._known: WeakKeyDictionary[Topic, dict[str, _Known]] = WeakKeyDictionary()

    def leave_out(self, prefix: str) -> None:
        """Show no group with this prefix: a dialect holds the log with it, and shows its own."""
        self._left_out = (*self._left_out, prefix)

    def other_owner(self, topic: Topic, name: str, owner: str | None) -> GroupOwner | None:
        """Another owner that has the group; None if this one may move it, or does not say."""
        known = self._known.get(topic, {}).get(name)
        if owner is None or known is None or known.owner in (None, owner):
            return None
        since = self._clock.monotonic_ns() - known.owned_ns
        return GroupOwner(known.owner or "", round(since / SECOND, 1)) if since < OWNED_NS else None

    def moved(self, topic: Topic, name: str, owner: str | None = None) -> None:
        """A group has committed an offset, or is new; without ``owner`` it keeps the one it has."""
        now = self._clock.monotonic_ns()
        known = self._group(topic, name)
        known.pace.moved(now, topic.groups[name])
        if owner is not None:
            known.owner, known.owned_ns = owner, now

    def deleted(self, topic: Topic, name: str) -> None:
        """Forget a group that is no more."""
        self._known.get(topic, {}).pop(name, None)

    def of(self, topic: Topic) -> Iterator[LogGroup]:
        """The groups of a topic, by name."""
        for name in sorted(topic.groups):
            if not name.startswith(self._left_out):
                yield self._figures(topic, name)

    def lag(self, topic: Topic, name: str) -> int | None:
        """Messages that a group has still to read; None if there is no such group."""
        return self._figures(topic, name).lag if name in topic.groups else None

    def _figures(self, topic: Topic, name: str) -> LogGroup:
        offset, log = topic.groups[name], topic.log
        # A group may be before the start, or behind the end of a log that has lost its tail.
        lag = log.next_offset - min(log.next_offset, max(log.start_offset, offset))
        age_ns = topic.group_ages.age_ns(name)
        found = LogGroup(name, offset, lag, 0.0, age=age_ns // SECOND)
        if lag:
            found.stale = age_ns >= self._stale_ns
            if self._retention_ns:
                found.expires_in = max(0, self._retention_ns - age_ns) // SECOND
        known = self._known.get(topic, {}).get(name)
        if known is not None:
            found.rate = known.pace.rate(self._clock.monotonic_ns(), offset)
            found.owner = known.owner
        return found

    def _group(self, topic: Topic, name: str) -> _Known:
        groups = self._known.setdefault(topic, {})
        if name not in groups:
            groups[name] = _Known(Pace(self._clock.monotonic_ns(), topic.groups[name]))
        return groups[name]

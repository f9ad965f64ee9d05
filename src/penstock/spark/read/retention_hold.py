"""The group that keeps nodes from deleting what a query has not read yet.

It follows what Spark has committed. Nodes take an owner's word for a minute: another query with the
same group is refused meanwhile. So an idle query commits again from time to time, which also keeps
its group from expiring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.spark.errors import GroupTakenError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Bounds, Place, Position
from penstock.spark.warn_once import WarnOnce

# Three times within the minute for which nodes take an owner's word.
_AGAIN_NS: Final = 20 * SECOND


class RetentionHold:
    """A query's group, and how much of its place the nodes know."""

    def __init__(self, cluster: Cluster, once: WarnOnce) -> None:
        self._cluster = cluster
        self._once = once
        self._held: dict[Place, tuple[str, int, str]] = {}
        self._all_ns: int | None = None

    @property
    def is_due(self) -> bool:
        """True if nodes should hear from the query, also where nothing has moved."""
        return self._all_ns is None or SYSTEM_CLOCK.monotonic_ns() - self._all_ns > _AGAIN_NS

    def move(self, position: Position, bounds: Mapping[Place, Bounds]) -> None:
        """Move the group where nodes do not know it yet, in logs that are there now.

        A failure only keeps segments longer, so it must not end the query. But a group that another
        query has does (GroupTakenError), and one that is not there yet: nothing would be held for
        the query, and retention would take what it has not read (SourceError).
        """
        wanted = {
            place: (position.group, offset, bounds[place].log)
            for place, offset in position.offsets.items()
            # An offset behind the end is of a log that was made again since.
            if place in bounds and offset <= bounds[place].end
        }
        whole = self.is_due
        due = {place: at for place, at in wanted.items() if whole or self._held.get(place) != at}
        if not due:
            return
        offsets = {place: offset for place, (_, offset, _) in due.items()}
        try:
            self._cluster.commit(offsets, position.group, position.owner)
        except GroupTakenError:
            # Two queries on one group would each move it over what the other has not read.
            raise
        except SourceError as error:
            new = [place for place in due if place not in self._held]
            self._require_there(new, position.group, error)
            self._once.warn(f"group {position.group} was not moved: {error}")
            return
        self._held |= due
        if whole:
            self._all_ns = SYSTEM_CLOCK.monotonic_ns()

    def _require_there(self, places: Sequence[Place], group: str, error: SourceError) -> None:
        """Raise SourceError if a place does not have the group, which could not be made."""
        missing = self._cluster.without_group(places, group)
        if missing:
            topics = sorted({place.topic for place in missing})
            more = f" and {len(topics) - 1} more topics" if len(topics) > 1 else ""
            raise SourceError(
                f"group {group} could not be made for topic {topics[0]}{more}, so that retention "
                f"would not wait for the query there: {error}. Start it again, with a longer "
                "timeout if the node is busy"
            )

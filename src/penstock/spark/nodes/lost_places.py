"""Places that were read and that no known node has any more: asked for where they were, waited for,
or given up with a warning.

A node may leave nsqlookupd and still answer, and a topic may be deleted before it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.log_api.errors import LogError, NodeError
from penstock.spark import planning
from penstock.spark.access import bounds_in, client, persist, secured, why
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Bounds, Offsets, Place
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

_ASK_AGAIN_NS: Final = 5 * SECOND
_HURRIED_S: Final = 2.0


class LostPlaces:
    """The missing places of one query, and what is known of them from before."""

    def __init__(self, settings: SourceSettings, once: WarnOnce) -> None:
        self._settings = settings
        self._directory, _ = settings.directory
        self._once = once
        self._ends: Offsets = {}
        self._gone: set[Place] = set()
        self._away_until_ns: dict[str, int] = {}

    def saw(self, bounds: Mapping[Place, Bounds]) -> None:
        """Remember how far the logs go."""
        self._gone.difference_update(bounds)
        self._ends |= {place: bound.end for place, bound in bounds.items()}

    def planned(self, ends: Mapping[Place, int]) -> None:
        """Remember that the logs went so far, at least."""
        # A bound that was seen is surer than one that was planned.
        self._ends = {**ends, **self._ends}

    def look_for(
        self, missing: Mapping[Place, int], address_of: Mapping[str, str], asked: set[str]
    ) -> dict[Place, Bounds]:
        """The missing places whose node still answers.

        ``asked`` are the addresses of the known nodes. Raises SourceError as options have it.
        """
        found: dict[Place, Bounds] = {}
        for node in dict.fromkeys(place.node for place in missing):
            reached = {place: offset for place, offset in missing.items() if place.node == node}
            address = address_of.get(node, node)
            if address in asked:
                self._deleted(reached)
            # The list was changed by whoever runs the query: that is not an accident to wait for.
            elif self._settings.nodes:
                self._once.warn(
                    f"node {node} is not in nsqd_http_address any more; not read on it: "
                    + self._what_is_left(reached)
                )
            else:
                found |= self._at(node, address, reached)
        return found

    def away(self, places: Iterable[Place]) -> list[Place]:
        """The places whose node has left and does not answer."""
        return [place for place in places if place.node in self._away_until_ns]

    def gone(self, places: Iterable[Place]) -> list[Place]:
        """The places whose node answers, and has their topic no more."""
        return [place for place in places if place in self._gone]

    def _at(self, node: str, address: str, reached: Offsets) -> dict[Place, Bounds]:
        """The answer of a node that left its directory."""
        if SYSTEM_CLOCK.monotonic_ns() < self._away_until_ns.get(node, 0):
            return {}
        try:
            # Each batch asks, and a machine that is gone answers nothing at all.
            found = self._ask(address, reached, min(_HURRIED_S, self._settings.timeout_s))
        except (NodeError, SourceError) as error:
            left = self._what_is_left(reached)
            if not left:
                return self._leave_alone(node)
            problem = f"node {node} has left {self._directory} with messages to read ({left})"
            if not self._settings.wait_for_nodes:
                self._once.warn(
                    f"{problem} and does not answer: {why(error)}. They are read when it "
                    "is back; waitForNodes=true waits for it"
                )
                return self._leave_alone(node)
            found = self._waited_for(
                address, reached, f"{problem}; waitForNodes=false goes on without it"
            )
        self._away_until_ns.pop(node, None)
        self._once.warn(f"node {node} has left {self._directory}; it is read on at {address}")
        self._deleted({place: at for place, at in reached.items() if place not in found})
        return found

    def _waited_for(self, address: str, reached: Offsets, problem: str) -> dict[Place, Bounds]:
        """The answer of a silent node; other refusals are not waited for. Raises SourceError."""
        timeout_s = self._settings.timeout_s
        try:
            return persist(lambda: self._ask(address, reached, timeout_s), problem, timeout_s)
        except LogError as error:
            raise SourceError(f"{problem}: {why(error)}") from None

    def _ask(self, address: str, reached: Offsets, timeout_s: float) -> dict[Place, Bounds]:
        access = self._settings.access.hurried(timeout_s)
        secure = secured(address, access)
        topics = sorted({place.topic for place in reached})
        return bounds_in(client(secure, access).offsets_of(topics), secure)

    def _leave_alone(self, node: str) -> dict[Place, Bounds]:
        """Return nothing, also for the next seconds: a node that hangs would hold up each batch."""
        self._away_until_ns[node] = SYSTEM_CLOCK.monotonic_ns() + _ASK_AGAIN_NS
        return {}

    def _what_is_left(self, reached: Offsets) -> str:
        """The unread offsets; empty if all that is known of was read."""
        problem = []
        for place, offset in sorted(reached.items()):
            end = self._ends.get(place)
            if end is None:
                problem.append(f"topic {place.topic} from offset {offset} on")
            elif end > offset:
                problem.append(f"topic {place.topic} from offset {offset} to {end}")
        return ", ".join(problem[:10]) + (
            f" and {len(problem) - 10} more" if len(problem) > 10 else ""
        )

    def _deleted(self, reached: Offsets) -> None:
        """The nodes answer, but the topics are gone from them. Raises SourceError."""
        self._gone.update(reached)
        for place, offset in sorted(reached.items()):
            end = self._ends.get(place, 0)
            if end > offset and self._settings.fail_on_data_loss:
                raise SourceError(planning.vanished(place, offset, end))
            if end > offset:
                problem = planning.vanished(place, offset, end).partition(". Set ")[0]
                self._once.warn(f"{problem}. Skipped, as failOnDataLoss=false")
            elif place not in self._ends:
                self._once.warn(
                    f"topic {place.topic} is no more on node {place.node}; offsets to {offset} "
                    "were read"
                )

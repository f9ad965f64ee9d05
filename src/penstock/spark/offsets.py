"""Positions in the log: a place is one queue of one topic on one node, an offset a number in it.

In a checkpoint and in the options ``startingOffsets`` and ``endingOffsets`` they are written as
``{"topic": {"node": {"queue": offset}}}``, as Kafka users know it. A checkpoint also carries the
name of the group that holds retention, so that a restarted query goes on with the same one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from penstock.spark.errors import OptionError

LATEST = -1
EARLIEST = -2


class Place(NamedTuple):
    """One queue of one topic on one node; ``node`` is its ``broadcast:http_port`` name."""

    topic: str
    node: str
    queue: int


class Bounds(NamedTuple):
    """A queue as its node reports it now: offsets ``start`` to ``end`` (not included)."""

    start: int
    end: int
    bytes: int
    address: str

    @property
    def record_bytes(self) -> float:
        """Mean bytes of a message in the log, framing included."""
        return self.bytes / max(1, self.end - self.start)


Offsets: TypeAlias = dict[Place, int]
Nested: TypeAlias = dict[str, dict[str, dict[str, int]]]


def nest(offsets: Mapping[Place, int]) -> Nested:
    """The JSON form; sorted, because Spark compares offsets as text."""
    nested: Nested = {}
    for place, offset in sorted(offsets.items()):
        nested.setdefault(place.topic, {}).setdefault(place.node, {})[str(place.queue)] = offset
    return nested


def flatten(nested: Mapping[str, Any]) -> Offsets:
    """The inverse of ``nest``. Raises ValueError, TypeError or AttributeError on another shape."""
    return {
        Place(topic, node, int(queue)): int(offset)
        for topic, nodes in nested.items()
        for node, queues in nodes.items()
        for queue, offset in queues.items()
    }


def to_checkpoint(offsets: Mapping[Place, int], group: str) -> dict[str, Any]:
    """What Spark stores for this source in its offset log."""
    return {"group": group, "offsets": nest(offsets)}


def from_checkpoint(stored: Mapping[str, Any]) -> tuple[Offsets, str]:
    """Offsets and group of a stored position."""
    return flatten(stored["offsets"]), str(stored["group"])


def resolve(option: str, name: str, bounds: Mapping[Place, Bounds]) -> Offsets:
    """Offsets for ``earliest``, ``latest`` or a JSON text; places it leaves out are earliest
    for ``startingOffsets`` and latest for ``endingOffsets``.

    Raises OptionError when the text is neither or names a place that is not there.
    """
    word = option.strip().lower()
    if word == "earliest":
        return {place: bound.start for place, bound in bounds.items()}
    if word == "latest":
        return {place: bound.end for place, bound in bounds.items()}
    given = _parse(option, name)
    for place in given:
        if place not in bounds:
            raise OptionError(f"{name} names {_absent(place, bounds)}")
    default = EARLIEST if name == "startingOffsets" else LATEST
    return {place: _special(given.get(place, default), bound) for place, bound in bounds.items()}


def _absent(place: Place, bounds: Mapping[Place, Bounds]) -> str:
    """What of a place is not there, and what is there instead."""
    nodes = sorted({other.node for other in bounds if other.topic == place.topic})
    if not nodes:
        topics = ", ".join(sorted({other.topic for other in bounds}))
        return f"topic {place.topic}, which is not among the topics that are read: {topics}"
    if place.node not in nodes:
        return f"node {place.node} for topic {place.topic}, which is held by {', '.join(nodes)}"
    queues = sorted(other.queue for other in bounds if other[:2] == place[:2])
    return (
        f"queue {place.queue} of topic {place.topic} on node {place.node}, "
        f"which has queue {', '.join(map(str, queues))}"
    )


def _parse(option: str, name: str) -> Offsets:
    try:
        return flatten(json.loads(option))
    except (ValueError, TypeError, AttributeError):
        raise OptionError(
            f"{name} must be earliest, latest or JSON such as "
            f'{{"topic": {{"host:4151": {{"0": 42}}}}}}, not {option!r}'
        ) from None


def _special(offset: int, bound: Bounds) -> int:
    return {LATEST: bound.end, EARLIEST: bound.start}.get(offset, offset)

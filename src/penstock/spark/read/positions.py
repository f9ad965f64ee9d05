"""The start and end of a read: the offsets that its options mean, as the logs are now."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.clock import SYSTEM_CLOCK
from penstock.spark.errors import OptionError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.read.fetch import offset_at
from penstock.spark.read.offsets import Bounds, Offsets, Place, resolve
from penstock.spark.settings import Settings


def span(settings: Settings, bounds: Mapping[Place, Bounds]) -> tuple[Offsets, Offsets]:
    """The start and end of a batch read. Raises OptionError and SourceError."""
    now_ns = SYSTEM_CLOCK.wall_ns()
    since, until = settings.starting_time, settings.ending_time
    if since and until and since.at(now_ns) > until.at(now_ns):
        raise OptionError("startingTimestamp is later than endingTimestamp")
    start = starting(settings, bounds, "earliest", now_ns)
    if until is not None:
        return start, offsets_at(until.at(now_ns), bounds, settings)
    return start, resolve(settings.ending or "latest", "endingOffsets", bounds)


def starting(
    settings: Settings, bounds: Mapping[Place, Bounds], default: str, now_ns: int | None = None
) -> Offsets:
    """The start of a read. Raises OptionError and SourceError."""
    since = settings.starting_time
    if since is None:
        return resolve(settings.starting or default, "startingOffsets", bounds)
    at_ns = since.at(SYSTEM_CLOCK.wall_ns() if now_ns is None else now_ns)
    return offsets_at(at_ns, bounds, settings)


def offsets_at(timestamp_ns: int, bounds: Mapping[Place, Bounds], settings: Settings) -> Offsets:
    """The first offset of each place published at this time or later, within the bounds.

    Nodes are asked all at once, each for one place after the other. Raises SourceError.
    """
    places_at: dict[str, list[Place]] = {}
    for place, bound in bounds.items():
        places_at.setdefault(bound.address, []).append(place)

    def ask(address: str) -> Offsets:
        return {
            place: offset_at(place, address, timestamp_ns, settings) for place in places_at[address]
        }

    found = [at for answers in at_once(ask, places_at).values() for at in answers.items()]
    # What was published since the bounds were asked for is for the next read.
    return {
        place: max(bounds[place].start, min(offset, bounds[place].end)) for place, offset in found
    }

"""The start and end of a read: the offsets that its options mean, as the logs are now."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.clock import SYSTEM_CLOCK
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.offsets import GROUP, Bounds, Offsets, Place, resolve
from penstock.spark.read.fetch import group_offsets, offset_at
from penstock.spark.source_settings import SourceSettings


def span(settings: SourceSettings, bounds: Mapping[Place, Bounds]) -> tuple[Offsets, Offsets]:
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
    settings: SourceSettings,
    bounds: Mapping[Place, Bounds],
    default: str,
    now_ns: int | None = None,
) -> Offsets:
    """The start of a read. Raises OptionError and SourceError."""
    if settings.starting == GROUP:
        return offsets_of_group(bounds, settings)
    since = settings.starting_time
    if since is None:
        return resolve(settings.starting or default, "startingOffsets", bounds)
    at_ns = since.at(SYSTEM_CLOCK.wall_ns() if now_ns is None else now_ns)
    return offsets_at(at_ns, bounds, settings)


def offsets_at(
    timestamp_ns: int, bounds: Mapping[Place, Bounds], settings: SourceSettings
) -> Offsets:
    """The first offset of each place published at this time or later, within the bounds.

    Nodes are asked all at once, each for one place after the other. Raises SourceError.
    """
    places_at = _places_at(bounds)

    def ask(address: str) -> Offsets:
        return {
            place: offset_at(place, address, timestamp_ns, settings) for place in places_at[address]
        }

    found = [at for answers in at_once(ask, places_at).values() for at in answers.items()]
    # What was published since the bounds were asked for is for the next read.
    return {
        place: max(bounds[place].start, min(offset, bounds[place].end)) for place, offset in found
    }


def offsets_of_group(bounds: Mapping[Place, Bounds], settings: SourceSettings) -> Offsets:
    """The place of the options' group in each log; nodes are asked all at once.

    A node that the topic came to later knows no group: it is read from its start. Raises
    SourceError where no node has the group for a topic.
    """
    places_at, group = _places_at(bounds), settings.group
    assert group is not None, "Settings see to that"

    def ask(address: str) -> Offsets:
        places = places_at[address]
        topics = sorted({place.topic for place in places})
        found = group_offsets(address, group, topics, settings)
        return {
            place: found[place.topic][place.queue]
            for place in places
            if place.queue in found.get(place.topic, {})
        }

    stands = {
        at: each for answer in at_once(ask, places_at).values() for at, each in answer.items()
    }
    known = {place.topic for place in stands}
    for topic in () if settings.finds_topics and known else sorted({each.topic for each in bounds}):
        if topic not in known:
            raise SourceError(
                f"startingOffsets=group: topic {topic} has no group {group}. Name the group that a "
                "query read with, or begin with startingOffsets=earliest or latest, which makes "
                "the group"
            )
    begins = {place: stands.get(place, bound.start) for place, bound in bounds.items()}
    if not settings.groups_hold:
        return begins  # what is not there any more is lost
    # After a kill of its node a group may stand where it stood before, and others may move it now.
    return {
        place: max(bounds[place].start, min(at, bounds[place].end)) for place, at in begins.items()
    }


def _places_at(bounds: Mapping[Place, Bounds]) -> dict[str, list[Place]]:
    """The places that each address serves."""
    places_at: dict[str, list[Place]] = {}
    for place, bound in bounds.items():
        places_at.setdefault(bound.address, []).append(place)
    return places_at

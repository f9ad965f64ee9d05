"""The place where the query of the rows that do not parse begins: where the main one does.

Each by itself would find the end of the log, or the time an hour ago, when it starts, and the main
query starts first: rows that came between the two would not parse and be in no letter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.ids import fork
from penstock.spark import planning
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import (
    GROUP,
    Bounds,
    Place,
    Position,
    from_checkpoint,
    nest,
    renamed,
)
from penstock.spark.pipelines import own
from penstock.spark.read.positions import starting
from penstock.spark.source_settings import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTS: Final = ("startingoffsets", "startingtimestamp")


def fixed(
    spark: SparkSession, options: Mapping[str, str], checkpoint: str, bad_checkpoint: str
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The options of the source for the main query and for that of the bad rows.

    The second begins where the first does; one that is new beside a query that has begun, where
    that stands. Raises SourceError when nodes do not answer.
    """
    settings = SourceSettings.parse(options, "stream")
    if own.last_planned(spark, bad_checkpoint) >= 0 or not _moves(settings):
        return options, options
    bounds = Cluster(settings).bounds(required=False)
    if own.last_planned(spark, checkpoint) < 0:
        begins = _at(starting(settings, bounds, "latest"), options)
        return begins, begins
    done = own.last_done(spark, checkpoint)
    stands = position_in(own.text(spark, checkpoint, f"offsets/{max(done, 0)}") or "", done)
    return options, options if stands is None else _at(offsets_there(stands, bounds), options)


def position_in(log: str, done: int) -> Position | None:
    """The place to which batch ``done`` went, or before it is done where the first one begins, by
    the text of Spark's log of offsets; None if that does not say so.
    """
    for line in log.splitlines():
        try:
            found = from_checkpoint(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if done >= 0:
            return found
        return None if found.began is None else found._replace(offsets=found.began)
    return None


def offsets_there(stands: Position, bounds: Mapping[Place, Bounds]) -> dict[Place, int]:
    """The offsets of the logs that are there still; the others are read from their start, as those
    that are left out are.
    """
    now = renamed(stands, bounds)
    there = {place: offset for place, offset in now.offsets.items() if place in bounds}
    held, _ = planning.held(there, bounds, now.logs)
    return {
        place: at
        for place, at in held.items()
        if at == there[place] or fork(now.logs.get(place, ""), bounds[place].log) is not None
    }


def _moves(settings: SourceSettings) -> bool:
    """True for a start that is another one a moment later."""
    if settings.starting_time is not None:
        return settings.starting_time.relative
    # The bad rows' query has another group, so it is told where that of the main one stands.
    return (settings.starting or "latest") in ("latest", GROUP)


def _at(offsets: Mapping[Place, int], options: Mapping[str, str]) -> dict[str, str]:
    others = {key: value for key, value in options.items() if key.lower() not in _STARTS}
    return others | {"startingOffsets": json.dumps(nest(offsets))}

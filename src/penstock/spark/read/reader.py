"""Reading splits: raw batches are fetched over HTTP and become Arrow record batches.

Nothing here needs Spark: ``penstock.arrow`` reads with it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.spark import planning
from penstock.spark.errors import LostError, OptionError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Bounds, Offsets, Place
from penstock.spark.planning import Split
from penstock.spark.read.decode import Part, record_batch, wanted_parts
from penstock.spark.read.fetch import fetch
from penstock.spark.source_settings import SourceSettings
from penstock.spark.warn_once import WarnOnce

_FETCH_BYTES_MIN = 64 << 10
Decoded: TypeAlias = tuple[pa.RecordBatch, int]
"""Messages of a split, and the offset behind them."""
# Of this process: a Python worker of Spark serves many tasks.
_once = WarnOnce()


def restrict(
    start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds], settings: SourceSettings
) -> tuple[Offsets, Offsets]:
    """The positions, if the log holds both; without failOnDataLoss the nearest that it holds.

    Raises SourceError, and OptionError for a start after the end.
    """
    held = start
    if settings.fail_on_data_loss:
        planning.check(start, bounds, {})
        planning.check(end, bounds, {})
    else:
        held, skipped = planning.held(start, bounds, {})
        for sentence in skipped:
            _once.warn(sentence)
        end = {place: min(offset, bounds[place].end) for place, offset in end.items()}
    for place, last in sorted(end.items()):
        if held[place] == start[place] > last:
            raise OptionError(planning.backwards(place, start[place], last))
    return held, end


def read_split(
    split: Split | None, columns: Sequence[str], settings: SourceSettings
) -> Iterator[pa.RecordBatch]:
    """The messages of a split, one record batch a fetch. Raises SourceError."""

    def decode(buffer: bytes, position: int, split: Split) -> Decoded | None:
        parts = list(wanted_parts(buffer, position, split.end))
        miss(_holes(split, position, parts), settings)
        if not parts:
            return None
        behind = parts[-1].batch.first_offset + parts[-1].last
        return record_batch(parts, split.place, columns), behind

    return walk(split, settings, decode)


def walk(
    split: Split | None,
    settings: SourceSettings,
    decode: Callable[[bytes, int, Split], Decoded | None],
) -> Iterator[pa.RecordBatch]:
    """Fetch a split piece by piece. ``decode`` gives the messages of a piece and the offset behind
    them, None if there is no message left. Raises SourceError.
    """
    position = split.start if split is not None else 0
    while split is not None and position < split.end:
        try:
            data = fetch(split, position, fetch_bytes(split, position, settings), settings)
        except LostError as lost:
            if settings.fail_on_data_loss:
                raise
            _once.warn(f"{lost} (skipped)")
            position = split.end if lost.resume is None else lost.resume
            continue
        decoded = decode(data, position, split)
        if decoded is None:
            return
        batch, position = decoded
        yield batch


def fetch_bytes(split: Split, position: int, settings: SourceSettings) -> int:
    """About what is left of the split, so that a small split does not fetch far beyond its end."""
    # `record_bytes` is an average: with a little more, the last messages need no second request.
    left = int((split.end - position) * split.record_bytes * 1.05) + _FETCH_BYTES_MIN
    return max(_FETCH_BYTES_MIN, min(settings.fetch_bytes, left))


def _holes(split: Split, position: int, parts: Sequence[Part]) -> Iterator[str]:
    """A sentence for all offsets that are left out at a place: their batch was quarantined."""
    if not parts:
        yield missing(split.place, position, "beyond what was planned")
    for part in parts:
        first = part.batch.first_offset + part.first
        if first != position:
            yield missing(split.place, position, f"at {first}")
        position = first + part.rows


def miss(holes: Iterable[str], settings: SourceSettings) -> None:
    """Raise SourceError for the first of these; without failOnDataLoss warn of each."""
    for said in holes:
        if settings.fail_on_data_loss:
            raise SourceError(said)
        _once.warn(f"{said.partition('. Set ')[0]}. Skipped, as failOnDataLoss=false")


def missing(place: Place, offset: int, goes_on: str) -> str:
    return (
        f"offset {offset} of topic {place.topic} (queue {place.queue}) on node {place.node} is "
        f"missing (damaged and set aside); the log goes on {goes_on}. "
        "Set failOnDataLoss=false to skip what is missing"
    )


class Log(NamedTuple):
    """The logs of one dialect: the nodes that hold them, and the messages of a split."""

    cluster: Callable[[Any], Cluster]
    read_split: Callable[[Split | None, Sequence[str], Any], Iterator[pa.RecordBatch]]


NSQ: Final = Log(Cluster, read_split)

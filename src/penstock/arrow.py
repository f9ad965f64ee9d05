"""A topic's log as Arrow record batches: for pandas, polars, duckdb and whatever else reads Arrow.

    import penstock.arrow

    rows = penstock.arrow.read("events", nsqd_http_address="127.0.0.1:4151")
    rows.read_pandas(); polars.from_arrow(rows); duckdb.sql("select count(*) from rows")

    orders = penstock.arrow.read("orders", format="rocketmq", namesrvAddr="127.0.0.1:9876")

It needs pyarrow (``pip install 'penstock-mq[arrow]'``) and neither Java nor Spark, and leaves
nothing at the nodes: no group, no channel.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from penstock.spark import planning
from penstock.spark.errors import OptionError
from penstock.spark.offsets import Bounds, Nested, Offsets, Place, resolve
from penstock.spark.read import decode
from penstock.spark.read.positions import offsets_at
from penstock.spark.read.reader import NSQ, Log, restrict
from penstock.spark.rocketmq import decode as rocketmq_decode
from penstock.spark.rocketmq.reader import ROCKETMQ
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.source_settings import SourceSettings
from penstock.spark.timestamps import nanoseconds

Position: TypeAlias = str | int | datetime | Nested
"""``earliest``, ``latest``, an offset, a time, or offsets by topic, node and queue."""


class _Format(NamedTuple):
    """The parts that read the log of one kind of topic."""

    settings: type[SourceSettings]
    types: Mapping[str, pa.DataType]
    log: Log


_FORMATS: Final = {
    "nsq": _Format(SourceSettings, decode.TYPES, NSQ),
    "rocketmq": _Format(RocketmqSettings, rocketmq_decode.TYPES, ROCKETMQ),
}
# Connections are kept for the whole process, each for one request at a time.
_connections = threading.Lock()


def _unlock() -> None:
    """Make another lock for a forked process: a thread of its parent may hold the one it has."""
    global _connections
    _connections = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def read(
    topic: str,
    start: Position = "earliest",
    end: Position = "latest",
    *,
    format: str = "nsq",
    columns: Sequence[str] | None = None,
    **options: str | int | bool | Sequence[str],
) -> pa.RecordBatchReader:
    """The messages from ``start`` up to, not including, ``end``, both fixed by this call.

    Batches are fetched while they are taken, one at a time, so memory does not grow with the topic.
    Within a node's queue they are in order; nodes and queues come one after the other. ``format``
    is ``nsq`` or ``rocketmq``, and ``options`` are those of Spark's source of that name:
    ``nsqd_http_address``, ``lookupd_http_address`` or ``namesrvAddr``, ``timeout``,
    ``failOnDataLoss``, ... A time is that of the publish, and a datetime with a time zone.

    Raises OptionError for what cannot be used and SourceError when the log cannot be read, also
    while batches are taken.
    """
    kind = _format(format)
    chosen = _columns(columns, kind)
    given = {name: _text(value) for name, value in options.items()}
    settings = kind.settings.parse({**given, "topic": topic}, "batch")
    _require_arguments(settings)
    with _connections:
        bounds = kind.log.cluster(settings).bounds()
        first, last = restrict(
            _offsets(start, "start", bounds, settings),
            _offsets(end, "end", bounds, settings),
            bounds,
            settings,
        )
    splits = planning.plan(first, last, bounds, partitions_min=1)
    schema = pa.schema([pa.field(name, kind.types[name]) for name in chosen])
    batches = (kind.log.read_split(split, chosen, settings) for split in splits)
    return pa.RecordBatchReader.from_batches(schema, _by_turns(batches))


def _by_turns(splits: Iterator[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The batches of one split after the other; each is fetched while nobody else fetches."""
    for batches in splits:
        while True:
            with _connections:
                batch = next(batches, None)
            if batch is None:
                break
            yield batch


def _format(name: str) -> _Format:
    if name not in _FORMATS:
        raise OptionError(f"format must be {' or '.join(_FORMATS)}, not {name!r}")
    return _FORMATS[name]


def _require_arguments(settings: SourceSettings) -> None:
    """Raise OptionError for options of Spark's that are arguments here."""
    if settings.starting or settings.starting_time or settings.ending or settings.ending_time:
        raise OptionError("starting... and ending... are options of Spark: give start and end")
    if settings.include_origin:
        raise OptionError("includeOrigin is an option of Spark: name the columns in columns")


def _columns(asked: Sequence[str] | None, kind: _Format) -> Sequence[str]:
    """The columns to read: by default those of all messages."""
    columns = kind.settings.usual_columns if asked is None else asked
    if not columns or not set(columns) <= set(kind.types):
        named = ", ".join(columns) or "none"
        raise OptionError(f"columns must be some of {', '.join(kind.types)}, not {named}")
    return columns


def _text(value: str | int | bool | Sequence[str]) -> str:
    """A value as the options of the Spark source are written."""
    return str(value) if isinstance(value, str | int) else ",".join(value)


def _offsets(
    position: Position, name: str, bounds: Mapping[Place, Bounds], settings: SourceSettings
) -> Offsets:
    """The offset that a position means in each place."""
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise OptionError(
                f"{name}={position} has no time zone: datetime.now(UTC) and its like have"
            )
        return offsets_at(nanoseconds(position), bounds, settings)
    if isinstance(position, int):
        if len(bounds) != 1:
            raise OptionError(
                f"{name}={position} says too little, as there are {len(bounds)} queues to read: "
                f'give {{"topic": {{"node": {{"queue": {position}}}}}}} or a time'
            )
        return dict.fromkeys(bounds, position)
    option = f"{name}ingOffsets"
    given = position if isinstance(position, str) else json.dumps(position)
    try:
        return resolve(given, option, bounds)
    except OptionError as error:
        raise OptionError(str(error).replace(option, name)) from None

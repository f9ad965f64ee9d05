"""Exactly once to RocketMQ's topics, in the tasks: rows are staged at the nodes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.spark.sink.pieces import Longs, Piece, groups
from penstock.spark.sink.rocketmq.bodies import batch_of
from penstock.spark.sink.rocketmq.rows import ANY_QUEUE, RocketmqRows
from penstock.spark.sink.settings import Settings
from penstock.spark.sink.staging import Batch, Form, StagedRows, by_body, stage_pieces

SHARDS: Final = 240
"""The number of shards that sharding keys fall into; all usual numbers of queues divide it."""
_SECTION = struct.Struct(">II")


def stage_rows(
    batches: Iterable[pa.RecordBatch], reader: RocketmqRows, settings: Settings, batch: Batch
) -> StagedRows:
    """Stage all rows of a partition. Raises SinkError, or SourceError for a silent node."""
    access = replace(settings.access, dialect="rocketmq")
    form = Form(access, sections, _by_shard, "maxMessageSize")
    return stage_pieces(_sharded(batches, reader), reader.partition, settings, batch, form)


def _sharded(
    batches: Iterable[pa.RecordBatch], reader: RocketmqRows
) -> Iterator[tuple[str, Piece]]:
    """Pieces with shards, from 1 on, in place of delays, which they do not have."""
    for batch in batches:
        for key, piece in reader.read(batch):
            shard = 0 if key.shard == ANY_QUEUE else key.shard + 1
            yield key.topic, replace(piece, delays=np.full(piece.count, shard))


def _by_shard(piece: Piece) -> Longs:
    """The shard of each message, or of one without a shard a hash of its body."""
    return np.where(piece.delays > 0, piece.delays, by_body(piece))


def sections(piece: Piece) -> bytes:
    """The body of /stage with dialect=rocketmq: each shard, and its messages as of a batch send."""
    parts = []
    for shard, indices in groups(piece.delays):
        messages = batch_of(piece if len(indices) == piece.count else piece.take(indices))
        parts += [_SECTION.pack(shard, len(messages)), messages]
    return b"".join(parts)

"""Reading splits: stored messages are fetched from a node or pulled from a broker, and decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.spark.planning import Split
from penstock.spark.read.reader import Decoded, Log, miss, missing, walk
from penstock.spark.rocketmq.decode import record_batch
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.rocketmq.routes import cluster_of
from penstock.spark.rocketmq.stored import Stored


def read_split(
    split: Split | None, columns: Sequence[str], settings: RocketmqSettings
) -> Iterator[pa.RecordBatch]:
    """The messages of a split, one record batch a fetch. Raises SourceError."""

    def decode(data: bytes, position: int, split: Split) -> Decoded | None:
        messages = Stored.parse(data).between(position, split.end)
        miss(_holes(split, position, messages), settings)
        if not len(messages):
            return None
        batch = record_batch(messages, split.place, columns)
        return batch, int(messages.queue_offsets[batch.num_rows - 1]) + 1

    return walk(split, settings, decode)


def _holes(split: Split, position: int, messages: Stored) -> Iterator[str]:
    """A sentence for all offsets that are left out at a place: the broker has lost them."""
    if not len(messages):
        yield missing(split.place, position, "beyond what was planned")
        return
    offsets = messages.queue_offsets
    wanted = np.concatenate(([position], offsets[:-1] + 1))
    for index in np.flatnonzero(offsets != wanted):
        yield missing(split.place, int(wanted[index]), f"at {offsets[index]}")


ROCKETMQ: Final = Log(cluster_of, read_split)

"""Reading splits: stored messages are fetched from a node or pulled from a broker, and decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.spark.errors import SourceError
from penstock.spark.read.planning import Split
from penstock.spark.read.reader import Decoded, missing, walk
from penstock.spark.rocketmq.decode import record_batch
from penstock.spark.rocketmq.settings import RocketmqSettings
from penstock.spark.rocketmq.stored import Stored


def read_split(
    split: Split | None, columns: Sequence[str], settings: RocketmqSettings
) -> Iterator[pa.RecordBatch]:
    """The messages of a split, one record batch a fetch. Raises SourceError."""

    def decode(data: bytes, position: int, split: Split) -> Decoded | None:
        messages = Stored.parse(data).between(position, split.end)
        if settings.fail_on_data_loss:
            _require_dense(split, position, messages)
        if not len(messages):
            return None
        behind = int(messages.queue_offsets[-1]) + 1
        return record_batch(messages, split.origin, columns), behind

    return walk(split, settings, decode)


def _require_dense(split: Split, position: int, messages: Stored) -> None:
    """Raise SourceError when offsets are left out: the broker has lost their messages."""
    if not len(messages):
        raise SourceError(missing(split.place, position, "beyond what was planned"))
    offsets = messages.queue_offsets
    wrong = offsets != np.arange(position, position + len(offsets))
    if wrong.any():
        first = int(wrong.argmax())
        raise SourceError(missing(split.place, position + first, f"at {offsets[first]}"))

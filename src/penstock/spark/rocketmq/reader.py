"""Reading splits: stored messages are fetched from a node or pulled from a broker, and decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.spark.errors import LostError, SourceError
from penstock.spark.fetch import fetch
from penstock.spark.once import Once
from penstock.spark.planning import Split
from penstock.spark.reader import fetch_bytes, missing
from penstock.spark.rocketmq.decode import record_batch
from penstock.spark.rocketmq.settings import RocketmqSettings
from penstock.spark.rocketmq.stored import Stored

# Of this process: a Python worker of Spark serves many tasks.
_once = Once()


def read_split(
    split: Split | None, columns: Sequence[str], settings: RocketmqSettings
) -> Iterator[pa.RecordBatch]:
    """The messages of a split, one record batch a fetch. Raises SourceError."""
    if split is None:
        return
    position = split.start
    while position < split.end:
        try:
            data = fetch(split, position, fetch_bytes(split, position, settings), settings)
        except LostError as lost:
            if settings.fail_on_data_loss:
                raise
            _once.warn(f"{lost} (skipped)")
            position = split.end if lost.resume is None else lost.resume
            continue
        messages = Stored.parse(data).between(position, split.end)
        if settings.fail_on_data_loss:
            _require_dense(split, position, messages)
        if not len(messages):
            return
        yield record_batch(messages, split.origin, columns)
        position = int(messages.queue_offsets[-1]) + 1


def _require_dense(split: Split, position: int, messages: Stored) -> None:
    """Raise SourceError when offsets are left out: the broker has lost their messages."""
    if not len(messages):
        raise SourceError(missing(split.place, position, "beyond what was planned"))
    offsets = messages.queue_offsets
    wrong = offsets != np.arange(position, position + len(offsets))
    if wrong.any():
        first = int(wrong.argmax())
        raise SourceError(missing(split.place, position + first, f"at {offsets[first]}"))

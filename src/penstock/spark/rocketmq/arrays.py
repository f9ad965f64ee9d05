"""Arrow arrays of pieces of a buffer, without a Python object for each."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.spark.errors import SourceError
from penstock.spark.rocketmq.stored import Spans

_OFFSET_MAX: Final = 2**31 - 1


def binaries(data: bytes, spans: Spans) -> pa.Array:
    """The pieces, which are in order and do not overlap.

    The borders are those of an array in which pieces and what lies between them alternate, of which
    ``take`` keeps the pieces.
    """
    if len(data) > _OFFSET_MAX:
        raise SourceError(f"{len(data)} bytes fetched at once are too many for Arrow")
    count = len(spans.starts)
    edges = np.zeros(2 * count + 1, dtype=np.int32)
    edges[0:-1:2] = spans.starts
    edges[1::2] = spans.ends
    edges[-1] = edges[-2] if count else 0
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    alternating = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    return alternating.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int64)))


def texts(data: bytes, spans: Spans) -> pa.Array:
    """The pieces as text; what is not UTF-8 in them is replaced."""
    found = binaries(data, spans)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [each.decode("utf-8", "replace") for each in found.to_pylist()]
        return pa.array(decoded, pa.string())

"""Arrow's buffers as the body of a batch send (``rocketmq.protocol.batch_body``), in one kernel."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.sink.pieces import Piece, edges
from penstock.spark.sink.request_bodies import fixed

_HEAD_BYTES = 20


def batch_of(piece: Piece) -> bytes:
    """The messages one after the other, with their sizes and properties."""
    assert piece.properties is not None
    sizes = piece.sizes()
    texts = np.diff(edges(piece.properties))
    heads = np.zeros((piece.count, 5), ">i4")
    heads[:, 0] = _HEAD_BYTES + sizes + 2 + texts
    heads[:, 4] = sizes
    kind = piece.bodies.type
    lengths = texts.astype(">i2").reshape(-1, 1)
    messages = pc.binary_join_element_wise(
        fixed(heads.view(np.uint8), kind),
        piece.bodies,
        fixed(lengths.view(np.uint8), kind),
        piece.properties.cast(kind),
        pa.scalar(b"", kind),
    )
    last = int(edges(messages)[-1])
    return memoryview(messages.buffers()[2])[:last].tobytes()

"""Ids and times of messages whose frames were built before they were known."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from penstock.nsq.protocol.bodies import hex_ids
from penstock.nsq.protocol.frames import BODY_AT, ID_AT

if TYPE_CHECKING:
    import numpy.typing as npt

_TIMESTAMP_AT = 8


def stamp(
    frames: memoryview,
    frame: int | npt.NDArray[np.int64],
    first_id: int,
    timestamp_ns: int,
) -> None:
    """Write consecutive ids and the time into message frames, which stand back to back.

    ``frame`` is the size of each or, where they differ, the positions at which they start.
    """
    if isinstance(frame, int):
        count = len(frames) // frame
        ids = np.frombuffer(hex_ids(first_id, count), "V16")
        heads = np.ndarray(count, _stamps(), frames, 0, (frame,))
        heads["timestamp"] = timestamp_ns
        heads["id"] = ids
        return
    # Eight bytes at any position; a loop over frames would cost ten times as much.
    words = np.ndarray(len(frames) - 7, np.uint64, frames, 0, (1,))
    halves = np.frombuffer(hex_ids(first_id, len(frame)), np.uint64).reshape(-1, 2)
    words[frame + _TIMESTAMP_AT] = np.frombuffer(timestamp_ns.to_bytes(8, "big"), np.uint64)[0]
    words[frame + ID_AT] = halves[:, 0]
    words[frame + (ID_AT + 8)] = halves[:, 1]


@cache
def _stamps() -> np.dtype[np.void]:
    """Time stamp and id, where a message frame has them."""
    return np.dtype(
        {
            "names": ["timestamp", "id"],
            "formats": [">i8", "V16"],
            "offsets": [_TIMESTAMP_AT, ID_AT],
            "itemsize": BODY_AT,
        }
    )

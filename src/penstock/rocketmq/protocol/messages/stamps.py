"""Places and times of stored messages that were built before these were known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.rocketmq.protocol.messages.message import (
    BODY_LENGTH_AT,
    HOST_BITS,
    IPV6_EXTRA,
    PHYSICAL_OFFSET_AT,
    QUEUE_AT,
    QUEUE_OFFSET_AT,
    STORE_MS_AT,
    SYS_FLAG_AT,
    SysFlag,
)

if TYPE_CHECKING:
    import numpy.typing as npt


def stamp(
    frames: memoryview,
    starts: npt.NDArray[np.integer],
    queue: int,
    queue_offset: int,
    physical_offset: int,
    store_ms: int,
) -> int:
    """Write consecutive offsets, the queue and the time into stored messages, which begin at
    ``starts`` and have hosts of one kind; the bytes of their bodies.
    """
    at = starts.astype(np.int64)
    numbers = np.arange(len(at))
    flags = int.from_bytes(frames[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    store_ms_at = STORE_MS_AT + (IPV6_EXTRA if flags & SysFlag.BORN_HOST_IPV6 else 0)
    # Words at any position; a loop over messages would cost ten times as much.
    longs = np.ndarray(len(frames) - 7, ">i8", frames, 0, (1,))
    longs[at + QUEUE_OFFSET_AT] = queue_offset + numbers
    longs[at + PHYSICAL_OFFSET_AT] = physical_offset + numbers
    longs[at + store_ms_at] = store_ms
    ints = np.ndarray(len(frames) - 3, ">i4", frames, 0, (1,))
    ints[at + QUEUE_AT] = queue
    body_length_at = BODY_LENGTH_AT + IPV6_EXTRA * (flags & HOST_BITS).bit_count()
    return int(ints[at + body_length_at].sum())

"""The bodies of stored messages, for readers of another dialect (``broker.dialects``).

A body that its client has compressed with zlib is decompressed (RocketMQ spec 3.2). One that was
packed in another way, is damaged or would become too large stays as it was stored.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from penstock.broker.dialects import frames
from penstock.rocketmq.protocol.messages.message import (
    BODY_LENGTH_AT,
    HOST_BITS,
    IPV6_EXTRA,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    SysFlag,
)
from penstock.storage.batch import Batch

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""No client sends a larger one: they check before they compress."""
BATCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""The limit for all decompressed bodies of one batch together, in bytes."""

_COMPRESSION_BITS: Final = 0x700
_ZLIB: Final = (0x000, 0x300)  # older clients do not say how
_int = struct.Struct(">i")
_long = struct.Struct(">q")


def bodies(batch: Batch, first: int, next_: int) -> list[bytes]:
    """The bodies of log offsets ``[first, next_)`` of a batch of stored messages."""
    room = BATCH_BYTES_MAX
    found = []
    for frame in frames(batch, first, next_):
        body, sys_flag = body_of(frame)
        if sys_flag & SysFlag.COMPRESSED:
            body = decompressed(body, sys_flag, min(BODY_BYTES_MAX, room))
            room = max(0, room - len(body))
        found.append(body)
    return found


def queue_offset(batch: Batch) -> int | None:
    """The queue offset that the first message of a batch states."""
    if len(batch.frames) < QUEUE_OFFSET_AT + _long.size:
        return None
    offset: int = _long.unpack_from(batch.frames, QUEUE_OFFSET_AT)[0]
    return offset if offset >= 0 else None


def body_of(frame: bytes) -> tuple[bytes, int]:
    """The body and the sysFlag of a stored message; all of it and 0 when it is not one."""
    try:
        (sys_flag,) = _int.unpack_from(frame, SYS_FLAG_AT)
        place = BODY_LENGTH_AT + IPV6_EXTRA * (sys_flag & HOST_BITS).bit_count()
        (length,) = _int.unpack_from(frame, place)
    except struct.error:
        return frame, 0
    start = place + _int.size
    if not 0 <= length <= len(frame) - start:
        return frame, 0
    return frame[start : start + length], sys_flag


def decompressed(body: bytes, sys_flag: int, nbytes_max: int) -> bytes:
    """The body as its sender meant it, or as it is when that has more than ``nbytes_max``."""
    if sys_flag & _COMPRESSION_BITS not in _ZLIB:
        return body
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(body, nbytes_max + 1)
    except zlib.error:
        return body
    return found if unpacker.eof and len(found) <= nbytes_max else body

"""Bodies that are compressed on the way (RocketMQ spec 3.2): zlib, and for 5.x LZ4 and ZSTD."""

from __future__ import annotations

import mmap
import zlib
from contextlib import suppress
from typing import Any, Final

from penstock.rocketmq.protocol.messages.message import SysFlag

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that a body may become; nobody sends a longer one."""
_USUAL_BYTES: Final = 64 * 1024
_KIND_MASK: Final = 0x700
_KINDS: Final = {"ZLIB": 0x300, "LZ4": 0x100, "ZSTD": 0x200}


def compress(body: bytes, kind: str, level: int) -> tuple[bytes, int]:
    """The packed body, and the bits of the sysFlag that say so."""
    bits = int(SysFlag.COMPRESSED) | _KINDS[kind]
    if kind == "ZLIB":
        return zlib.compress(body, level), bits
    packer = _cramjam().lz4 if kind == "LZ4" else _cramjam().zstd
    return bytes(packer.compress(body, level=level)), bits


def decompress(body: bytes, sys_flag: int, most: int = BODY_BYTES_MAX) -> bytes:
    """The body as its sender meant it; as it is when it is damaged or would become longer than
    ``most``.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = sys_flag & _KIND_MASK
    try:
        if kind == _KINDS["LZ4"]:
            return _within(_cramjam().lz4, body, most)
        if kind == _KINDS["ZSTD"]:
            return _within(_cramjam().zstd, body, most)
    except Exception:  # cramjam's own
        return body
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(body, most)
    except zlib.error:
        return body
    return found if unpacker.eof else body


def _within(packer: Any, body: bytes, most: int) -> bytes:
    """The body unpacked; an error of cramjam's when it does not fit, before it takes memory."""
    room = bytearray(min(_USUAL_BYTES, most))
    with suppress(_cramjam().DecompressionError):
        return bytes(memoryview(room)[: packer.decompress_into(body, room)])
    with mmap.mmap(-1, most) as all_room:  # the system gives what is written to
        return all_room[: packer.decompress_into(body, all_room)]


def _cramjam() -> Any:
    import cramjam

    return cramjam

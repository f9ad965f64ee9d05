"""The header in RocketMQ's own serialisation, type 1 (reference 1.4)."""

from __future__ import annotations

import struct
from typing import Final

from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import FrameError

_FIXED = struct.Struct(">hBhii")
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">H")
_LANGUAGES = {int(language): language for language in Language}
CODE_MAX: Final = 32767
"""Codes above it, those of POP, can be said in JSON only."""


def encode(command: Command) -> bytes:
    """The header of a command. Raises ValueError for a code of more than 16 bits or a long key."""
    if not -CODE_MAX - 1 <= command.code <= CODE_MAX:
        raise ValueError(f"code {command.code} cannot be said in the binary serialisation")
    remark = command.remark.encode() if command.remark else b""
    fields = bytearray()
    for name, value in (command.ext or {}).items():
        key, data = name.encode(), value.encode("utf-8", "surrogatepass")
        if len(key) > 0xFFFF:
            raise ValueError(f"a field's name has {len(key)} bytes")
        fields += _KEY_LENGTH.pack(len(key)) + key + _LENGTH.pack(len(data)) + data
    fixed = _FIXED.pack(command.code, command.language, command.version & 0x7FFF,
                        command.opaque, command.flag)  # fmt: skip
    return b"".join(
        (fixed, _LENGTH.pack(len(remark)), remark, _LENGTH.pack(len(fields)), bytes(fields))
    )


def decode(header: bytes) -> Command:
    """What a header says. Raises FrameError when its lengths do not fit together."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, place = _sized(header, _FIXED.size)
        fields, place = _sized(header, place)
    except struct.error:
        raise FrameError(f"a binary header of {len(header)} bytes is cut short") from None
    return Command(
        code,
        opaque,
        _decode_fields(fields),
        b"",
        flag,
        remark.decode("utf-8", "replace") or None,
        _LANGUAGES.get(language, Language.OTHER),
        version,
        Serialization.BINARY,
    )


def _decode_fields(data: bytes) -> dict[str, str] | None:
    """Names and values; None for no bytes. Empty values stay empty, which reads like null."""
    if not data:
        return None
    fields: dict[str, str] = {}
    place, end = 0, len(data)
    while place < end:
        try:
            (length,) = _KEY_LENGTH.unpack_from(data, place)
            key = data[place + 2 : place + 2 + length]
            value, place = _sized(data, place + 2 + length)
        except struct.error:
            raise FrameError("the fields of a binary header are cut short") from None
        fields[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return fields


def _sized(data: bytes, place: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(data, place)
    end = place + 4 + length
    if length < 0 or end > len(data):
        raise FrameError(f"a binary header holds a length of {length} in {len(data)} bytes")
    return data[place + 4 : end], end

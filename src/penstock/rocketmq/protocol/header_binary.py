"""The header in RocketMQ's own serialisation, type 1 (RocketMQ spec 1.4)."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from penstock import lane
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import FrameError

FIXED: Final = struct.Struct(">hBhiii")
"""Code, language, version, opaque, flag, length of the remark, which follows."""
_HEAD = struct.Struct(">hBhiiii")
"""The fixed part of a header without a remark: the last number is the length of the fields."""
HEAD_BYTES: Final = _HEAD.size
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">H")
_length = _LENGTH.unpack_from
_lengths = struct.Struct(">Hxi").unpack_from
_LANGUAGES = {int(language): language for language in Language}
CODE_MAX: Final = 32767
"""Codes above it, those of POP, can be said in JSON only."""


def encode(command: Command) -> bytes:
    """The header of a command. Raises ValueError for a code of more than 16 bits or a long key."""
    if not -CODE_MAX - 1 <= command.code <= CODE_MAX:
        raise ValueError(f"code {command.code} cannot be said in the binary serialisation")
    # To Java a text without length is null, and the other way round.
    remark = command.remark.encode() if command.remark else b""
    parts: list[bytes] = []
    for name, value in (command.ext or {}).items():
        data = value.encode("utf-8", "surrogatepass")
        parts += (encode_name(name), _LENGTH.pack(len(data)), data)
    fields = b"".join(parts)
    fixed = FIXED.pack(
        command.code,
        command.language,
        # A signed short here (RocketMQ spec 1.4); no release is near its end.
        command.version & 0x7FFF,
        command.opaque,
        command.flag,
        len(remark),
    )
    return b"".join((fixed, remark, _LENGTH.pack(len(fields)), fields))


@lru_cache(maxsize=256)
def encode_name(name: str) -> bytes:
    """A field's name with its length. Raises ValueError for a long one."""
    key = name.encode()
    if len(key) > 0xFFFF:
        raise ValueError(f"a field's name has {len(key)} bytes")
    return _KEY_LENGTH.pack(len(key)) + key


def decode(header: bytes) -> Command:
    """Decode a header. Raises FrameError when its lengths do not fit together."""
    remark = None
    try:
        code, language, version, opaque, flag, length, size = _HEAD.unpack_from(header)
        if length or size != len(header) - HEAD_BYTES:
            data, place = _sized(header, FIXED.size, length)
            remark = data.decode("utf-8", "replace") or None
            (size,) = _LENGTH.unpack_from(header, place)
            fields, _ = _sized(header, place + _LENGTH.size, size)
        else:
            fields = header[HEAD_BYTES:]
    except struct.error:
        raise FrameError(f"a binary header of {len(header)} bytes is cut short") from None
    return Command(
        code,
        opaque,
        _decode_fields(fields) if fields else None,
        b"",
        flag,
        remark,
        _LANGUAGES.get(language, Language.OTHER),
        version,
        Serialization.BINARY,
    )


def _sized(header: bytes, place: int, length: int) -> tuple[bytes, int]:
    end = place + length
    if length < 0 or end > len(header):
        raise FrameError(f"a binary header holds a length of {length} in {len(header)} bytes")
    return header[place:end], end


def _decode_fields(data: bytes) -> dict[str, str]:
    """Names and values. Empty values stay empty, which reads like null.

    The bytes become text once, with a character for each: to cut that is half the work of decoding
    each piece, and right unless there are longer characters. The names of most fields that are sent
    have one letter, and both lengths are read at once then.
    """
    found = lane.fields_of(data)
    if found is not None:
        return found
    text = data.decode("latin-1")
    fields: dict[str, str] = {}
    place, end = 0, len(data)
    try:
        while place < end:
            name_length, length = _lengths(data, place)
            name_at = place + 2
            name_end = name_at + name_length
            if name_length != 1:
                (length,) = _length(data, name_end)
            value_at = name_end + 4
            place = value_at + length
            if not value_at <= place <= end:
                raise FrameError(
                    f"a binary header holds a length of {length} in {end - value_at} bytes"
                )
            fields[text[name_at:name_end]] = text[value_at:place]
    except struct.error:
        raise FrameError("the fields of a binary header are cut short") from None
    # Nearly always: then the characters of Latin-1 are those that were meant.
    if data.isascii():
        return fields
    return {_as_utf8(name): _as_utf8(value) for name, value in fields.items()}


def _as_utf8(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")

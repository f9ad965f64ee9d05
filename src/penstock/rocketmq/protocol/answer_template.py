"""Answers of one kind, by the thousand: what they have in common is encoded once.

A template gives the same bytes as ``Command.answer`` and ``frames.encode_head``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from penstock.rocketmq.protocol import frames, header_binary, header_json
from penstock.rocketmq.protocol.command import RESPONSE, Command, Serialization


class Request(Protocol):
    """The parts of a request that its answer depends on."""

    @property
    def opaque(self) -> int: ...

    @property
    def serialization(self) -> Serialization: ...


_OPAQUE_AT: Final = 5
_INT32: Final = 4


def _size(length: int) -> str:
    """A length of 4 bytes, a character for each."""
    return length.to_bytes(_INT32, "big").decode("latin-1")


_SIZES: Final = [_size(length) for length in range(256)]
"""The sizes of most values."""


class AnswerTemplate:
    """Answers with some fields that are always the same and some, ``names``, that are not."""

    def __init__(
        self,
        names: Sequence[str],
        constants: Mapping[str, str] | None = None,
        code: int = 0,
        remark: str | None = None,
    ) -> None:
        ext = {**(constants or {}), **dict.fromkeys(names, "\0")}
        text = header_json.encode(Command(code, 0, ext, flag=RESPONSE, remark=remark)).decode()
        # The percent signs first: those of the fields' texts are no places for values.
        text = text.replace("%", "%%").replace('"opaque":0,', '"opaque":%d,')
        self._json = text.replace('"\\u0000"', '"%s"')
        binary = header_binary.encode(
            Command(code, 0, dict(constants or {}), flag=RESPONSE, remark=remark)
        )
        remark_end = header_binary.FIXED.size + len((remark or "").encode())
        before, behind = binary[:_OPAQUE_AT], binary[_OPAQUE_AT + _INT32 : remark_end]
        self._before_opaque, self._behind_opaque = before, behind
        self._fixed = struct.Struct(f">iI{len(before)}si{len(behind)}si")
        self._head_size = remark_end + _INT32
        # Latin-1, as it has a character for each byte: so lengths and texts are filled in together.
        fields = binary[self._head_size :].decode("latin-1").replace("%", "%%")
        for name in names:
            fields += header_binary.encode_name(name).decode("latin-1").replace("%", "%%")
            fields += "%s%s"
        self._fields = fields

    def encode(self, request: Request, values: Sequence[str], body_length: int = 0) -> bytes:
        """The answer to a request, up to its body.

        The values are those of the names, in their order: plain ASCII, nothing that JSON escapes.
        """
        if request.serialization is Serialization.JSON:
            header = (self._json % (*values, request.opaque)).encode()
            return frames.prefix(Serialization.JSON, len(header), body_length) + header
        return self._binary(request.opaque, values, body_length)

    def _binary(self, opaque: int, values: Sequence[str], body_length: int) -> bytes:
        sized: list[str] = []
        for value in values:
            length = len(value)
            sized += (_SIZES[length] if length < 256 else _size(length), value)
        fields = (self._fields % tuple(sized)).encode("latin-1")
        size = len(fields)
        length, kind = frames.lengths(Serialization.BINARY, self._head_size + size, body_length)
        return (
            self._fixed.pack(length, kind, self._before_opaque, opaque, self._behind_opaque, size)
            + fields
        )

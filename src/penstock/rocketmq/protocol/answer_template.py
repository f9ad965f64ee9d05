"""Answers of one kind, by the thousand: what they have in common is encoded once.

A template gives the same bytes as ``Command.answer`` and ``frames.encode_head``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from penstock.rocketmq.protocol import frames, header_binary, header_json
from penstock.rocketmq.protocol.command import RESPONSE, Command, Serialization

_LENGTH = struct.Struct(">i")
_OPAQUE_AT = 5


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
        text = text.replace("%", "%%").replace('"opaque":0,', '"opaque":%d,')
        self._json = text.replace('"\\u0000"', '"%s"')
        binary = header_binary.encode(
            Command(code, 0, dict(constants or {}), flag=RESPONSE, remark=remark)
        )
        remark_end = header_binary.FIXED.size + len((remark or "").encode())
        self._before_opaque = binary[:_OPAQUE_AT]
        self._behind_opaque = binary[_OPAQUE_AT + _LENGTH.size : remark_end]
        self._constants = binary[remark_end + _LENGTH.size :]
        self._names = [header_binary.encode_name(name) for name in names]
        self._head_size = remark_end + _LENGTH.size
        self._fields_size = len(self._constants) + sum(len(name) + 4 for name in self._names)

    def encode(self, request: Command, values: Sequence[str], body_length: int = 0) -> bytes:
        """The answer to a request, up to its body.

        The values are those of the names, in their order: plain ASCII, nothing that JSON escapes.
        """
        if request.serialization is Serialization.JSON:
            header = (self._json % (*values, request.opaque)).encode()
            return frames.prefix(Serialization.JSON, len(header), body_length) + header
        return self._binary(request.opaque, values, body_length)

    def _binary(self, opaque: int, values: Sequence[str], body_length: int) -> bytes:
        size = self._fields_size
        fields: list[bytes] = []
        for name, value in zip(self._names, values, strict=True):
            data = value.encode()
            size += len(data)
            fields += (name, _LENGTH.pack(len(data)), data)
        prefix = frames.prefix(Serialization.BINARY, self._head_size + size, body_length)
        return b"".join((prefix, self._before_opaque, _LENGTH.pack(opaque), self._behind_opaque,
                         _LENGTH.pack(size), self._constants, *fields))  # fmt: skip

"""The shape of a send's header, taken from one that was seen: others of it are read by one regular
expression.

The sends of a producer differ in the request's number, queue, time, and the values of properties;
all else stands there as it did before. So what is read here is what a full reading gives. A header
that is written in any other way than we would write it has no pattern, nor has one that asks for
more than to store a message: a delay, a transaction, a batch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from penstock.rocketmq.broker.send.send_header import SendHeader, field_names
from penstock.rocketmq.protocol import header_binary, header_json
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError, FrameError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import TRANSACTION_BITS

HEADER_MAX: Final = 4096
"""Longer headers have no pattern."""
PATTERNS_MAX: Final = 1024
"""Expressions that are kept for the next connection with the same producer."""
_CODES: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
_BEGINNINGS: Final = {
    int(Serialization.BINARY): tuple(code.to_bytes(2) for code in _CODES),
    int(Serialization.JSON): tuple(b'{"code":%d,' % code for code in _CODES),
}
_NOT_PLAIN: Final = frozenset(
    (
        properties.CLUSTER,
        properties.TRANSACTION,
        properties.DELAY,
        properties.POP_CK,
        *properties.TIMERS,
    )
)
"""Properties of which the broker makes more than to store them."""

_NAME_END, _VALUE_END = properties.NAME_END.encode(), properties.VALUE_END.encode()
_JSON_NAME_END, _JSON_VALUE_END = rb"\u0001", rb"\u0002"
_VALUE: Final = rb"[ !#-\[\]-~]*"  # of characters that are one byte in both serialisations
_is_value = re.compile(_VALUE).fullmatch
_QUEUE, _BORN_MS, _PROPERTIES = 4, 6, 8  # places among the names of fields
_LENGTH = struct.Struct(">i")
_number = _LENGTH.unpack
_OPAQUE_AT, _FLAG_AT, _SIZE_AT = 5, 9, 17  # in a binary header without a remark
_FullMatch: TypeAlias = "Callable[[bytes, int, int], re.Match[bytes] | None]"


class PlainHead(Struct, frozen=True, gc=False):
    """The parts in which two sends differ; ``properties`` are as they are to be stored."""

    opaque: int
    queue: int
    born_ms: int
    properties: bytes


class SendPattern:
    """The headers that are like ``header``, of requests in one serialisation."""

    __slots__ = ("_dropped", "_ending", "_fullmatch", "_groups", "header", "kind")

    def __init__(
        self, kind: Serialization, header: SendHeader, source: bytes, cluster: str
    ) -> None:
        """``source`` is the expression, ``cluster`` the property that stored messages get."""
        self.kind = kind
        self.header = header
        self._fullmatch, self._groups = _compiled(source)
        self._dropped = _dropped(header.properties)
        stored = header.properties.encode().replace(self._dropped, b"", 1)
        is_ended = not stored or stored.endswith(_VALUE_END)
        self._ending = (b"" if is_ended else _VALUE_END) + cluster.encode()

    @classmethod
    def of(cls, kind: int, data: bytes, cluster: str) -> SendPattern | None:
        """The pattern of a header; None if it has none."""
        codec = header_binary if kind == Serialization.BINARY else header_json
        if len(data) > HEADER_MAX:
            return None
        try:
            command = codec.decode(data)
            header = SendHeader.of(command)
            header.check()
            is_usual = codec.encode(command) == data
        except (BodyError, FrameError, ValueError):
            return None
        if not is_usual or command.code not in _CODES or command.flag:
            return None
        if header.batch or header.queue < 0 or header.sys_flag & TRANSACTION_BITS:
            return None
        source = _source(data, command, header)
        if source is None:
            return None
        return cls(command.serialization, header, source, cluster)

    @staticmethod
    def is_send(kind: int, data: bytes, start: int) -> bool:
        """True if the header that starts there may have a pattern."""
        return data.startswith(_BEGINNINGS.get(kind, ()), start)

    def read(self, kind: int, data: bytes, start: int, end: int) -> PlainHead | None:
        """The header at ``[start, end)``; None if it is not like the one of the pattern."""
        found = self._fullmatch(data, start, end) if kind == self.kind else None
        if found is None:
            return None
        if self.kind:
            opaque, size, queue, born_ms, length, text = found.group(*self._groups)
            # The expression takes any length. A header with a wrong one goes the long way, which
            # tells the client.
            sizes = end - start - header_binary.HEAD_BYTES, len(text)
            if (_number(size)[0], _number(length)[0]) != sizes:
                return None
            (opaque,), queue, born_ms = _number(opaque), queue[1:], born_ms[1:]
        else:
            opaque, queue, born_ms, text = found.group(*self._groups)
            text = text.replace(_JSON_NAME_END, _NAME_END).replace(_JSON_VALUE_END, _VALUE_END)
        text = text.replace(self._dropped, b"", 1) + self._ending
        return PlainHead(int(opaque), int(queue), int(born_ms), text)


def _source(data: bytes, command: Command, header: SendHeader) -> bytes | None:
    """The expression for headers like this one; None if a value that may differ is of no plain
    form.
    """
    names, ext = field_names(command.code), command.ext or {}
    queue, born_ms, text = names[_QUEUE], names[_BORN_MS], names[_PROPERTIES]
    is_json = command.serialization is Serialization.JSON
    wanted = _text_source(header.properties, is_json)
    are_digits = all(ext.get(name, "").isdecimal() for name in (queue, born_ms))
    if wanted is None or not are_digits:
        return None
    if is_json:
        # Digits that fit in any case: a topic has at most 10,000 queues, and 18 digits are a long.
        holes = {queue: rb"(?P<q>\d{1,5})", born_ms: rb"(?P<b>\d{1,18})", text: wanted}
        return _json_source(data, command, ext, holes)
    # In the binary form a length stands before the digits; that of the time stays until 2286.
    digits = len(ext[born_ms])
    holes = {
        queue: rb"\x00\x00\x00(?P<q>\x01\d|\x02\d\d|\x03\d{3}|\x04\d{4}|\x05\d{5})",
        born_ms: rb"\x00\x00\x00(?P<b>\x%02x\d{%d})" % (digits, digits),
        text: b"(?P<l>.{4})" + wanted,
    }
    return _binary_source(data, ext, holes)


def _binary_source(data: bytes, ext: Mapping[str, str], holes: Mapping[str, bytes]) -> bytes:
    source = re.escape(data[:_OPAQUE_AT]) + b"(?P<o>.{4})"
    source += re.escape(data[_FLAG_AT:_SIZE_AT]) + b"(?P<s>.{4})"
    for name, value in ext.items():
        hole = holes.get(name)
        if hole is None:
            known = value.encode("utf-8", "surrogatepass")
            hole = re.escape(_LENGTH.pack(len(known)) + known)
        source += re.escape(header_binary.encode_name(name)) + hole
    return source


def _json_source(
    data: bytes, command: Command, ext: Mapping[str, str], holes: Mapping[str, bytes]
) -> bytes:
    # Nine digits at most: ten may be more than 32 bits, and a leading zero is no JSON.
    known = [(f'"opaque":{command.opaque},', b'"opaque":(?P<o>0|[1-9]\\d{0,8}),')]
    for name, hole in holes.items():
        value = ext[name].replace(properties.NAME_END, "\\u0001")
        value = value.replace(properties.VALUE_END, "\\u0002")
        known.append((f'"{name}":"{value}"', b'"%s":"%s"' % (name.encode(), hole)))
    pieces: list[bytes] = []
    place = 0
    found = sorted((data.find(text.encode()), len(text), hole) for text, hole in known)
    for at, size, hole in found:
        pieces += (re.escape(data[place:at]), hole)
        place = at + size
    return b"".join((*pieces, re.escape(data[place:])))


def _text_source(text: str, is_json: bool) -> bytes | None:
    """The expression for properties of these names; None for names or values that are not plain."""
    name_end, value_end = (_JSON_NAME_END, _JSON_VALUE_END) if is_json else (_NAME_END, _VALUE_END)
    if not text.isascii():
        return None
    entries = text.removesuffix(properties.VALUE_END).split(properties.VALUE_END)
    found: list[bytes] = []
    seen: set[str] = set(_NOT_PLAIN)
    for entry in entries:
        name, end, value = entry.partition(properties.NAME_END)
        is_wait = name == properties.WAIT
        if not end or not name or name in seen or not _is_value(f"{name}{value}".encode()):
            return None
        if is_wait and (not value or len(entries) == 1):
            return None
        seen.add(name)
        known = re.escape(name.encode() + name_end)
        found.append(known + (re.escape(value.encode()) if is_wait else _VALUE))
    tail = re.escape(value_end) if text.endswith(properties.VALUE_END) else b""
    return b"(?P<t>" + re.escape(value_end).join(found) + tail + b")"


def _dropped(text: str) -> bytes:
    """The property that is not stored, as bytes to be cut out once: it says whether to wait for the
    disk.
    """
    value = properties.value_of(text, properties.WAIT)
    if value is None:
        return b""
    entry = f"{properties.WAIT}{properties.NAME_END}{value}"
    is_first = text.startswith(entry)
    return (entry + properties.VALUE_END if is_first else properties.VALUE_END + entry).encode()


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(source: bytes) -> tuple[_FullMatch, tuple[int, ...]]:
    """The expression, and its groups in the order in which they are asked for."""
    # Lengths are any bytes, line ends among them.
    pattern = re.compile(source, re.DOTALL)
    return pattern.fullmatch, tuple(
        pattern.groupindex[name] for name in "osqblt" if name in pattern.groupindex
    )

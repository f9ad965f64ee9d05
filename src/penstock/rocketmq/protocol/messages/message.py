"""A stored message: the record that brokers keep and consumers pull (RocketMQ spec 3.1).

Big endian; an IPv6 host takes 16 bytes instead of 4 and sets a bit of the sysFlag::

    0   TOTALSIZE 4, MAGIC 4, BODYCRC 4, QUEUEID 4, FLAG 4
    20  QUEUEOFFSET 8, PHYSICALOFFSET 8, SYSFLAG 4, BORNTIMESTAMP 8
    48  BORNHOST 4 + 4, STORETIMESTAMP 8, STOREHOST 4 + 4
        RECONSUMETIMES 4, PREPAREDOFFSET 8
        body length 4 + body, topic length 1 (V1) or 2 (V2) + topic, properties length 2 + text
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from typing import Final
from zlib import crc32

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages.properties import BYTES_MAX

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
_MAGICS: Final = MAGIC_V1, MAGIC_V2
TOPIC_BYTES_V1: Final = 127

QUEUE_AT: Final = 12
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
OFFSETS: Final = slice(QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT + 8)
"""The bytes of both offsets."""
SYS_FLAG_AT: Final = 36
STORE_MS_AT: Final = 56
"""The offset when the born host is IPv4; IPv6 adds ``IPV6_EXTRA``."""
BODY_LENGTH_AT: Final = 84
"""The offset when both hosts are IPv4; each that is IPv6 adds ``IPV6_EXTRA``."""
IPV6_EXTRA: Final = 12

_LENGTH = struct.Struct(">i")
_SHORT = struct.Struct(">h")
# Java's checksum is without the sign bit (RocketMQ spec 3.1).
CRC_MASK: Final = 0x7FFFFFFF
_MAGIC_AT: Final = 4


class SysFlag(IntFlag):
    """Bits of the sysFlag (RocketMQ spec 3.2); bits 8 to 10 are the kind of compression."""

    COMPRESSED = 0x1
    MULTI_TAG = 0x2
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC
    BORN_HOST_IPV6 = 0x10
    STORE_HOST_IPV6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80


TRANSACTION_BITS: Final = 0xC

HOST_BITS: Final = int(SysFlag.BORN_HOST_IPV6 | SysFlag.STORE_HOST_IPV6)


def _format(born: int, store: int) -> str:
    return f">IIIiiqqiq{born}siq{store}siiqi"


class _Fixed(struct.Struct):
    """A record up to the bytes of its body, for addresses of these sizes."""

    # Python 3.15 wants the format here, versions before in ``__init__``.
    def __new__(cls, born: int, store: int) -> _Fixed:
        return super().__new__(cls, _format(born, store))  # type: ignore[call-arg]

    def __init__(self, born: int, store: int) -> None:
        super().__init__(_format(born, store))
        self.host_bits = 0
        if born == 16:
            self.host_bits |= int(SysFlag.BORN_HOST_IPV6)
        if store == 16:
            self.host_bits |= int(SysFlag.STORE_HOST_IPV6)


_FIXED = {(born, store): _Fixed(born, store) for born in (4, 16) for store in (4, 16)}
_FIXED_BY_BITS = {fixed.host_bits: fixed for fixed in _FIXED.values()}


@dataclass(slots=True)
class StoredMessage:
    """One record. Times in ms; ``properties`` as text, see ``protocol.properties``."""

    topic: str
    body: bytes
    queue: int
    queue_offset: int
    physical_offset: int
    born_host: Host
    store_host: Host
    born_ms: int
    store_ms: int
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0

    @property
    def offset_id(self) -> str:
        """The ``msgId`` that a broker gives for it."""
        return str(OffsetId(self.store_host, self.physical_offset))


def body_crc(body: bytes | memoryview) -> int:
    """The checksum of a body: CRC-32 without its top bit."""
    return crc32(body) & 0x7FFFFFFF


def encode(message: StoredMessage) -> bytes:
    """The record. Raises ValueError when the topic or the properties are too long."""
    topic, properties = message.topic.encode(), message.properties.encode("utf-8", "replace")
    if len(properties) > BYTES_MAX or len(topic) > BYTES_MAX:
        raise ValueError("topic or properties of more than 32767 bytes")
    return pack(
        topic_part(topic), message.body, properties, message.queue, message.queue_offset,
        message.physical_offset, message.born_host, message.born_ms, message.store_host,
        message.store_ms, message.flag, message.sys_flag, message.reconsume_times,
        message.prepared_offset,
    )  # fmt: skip


def topic_part(topic: bytes) -> bytes:
    """A topic with its length as a record has it: one byte for V1, two for V2."""
    if len(topic) > TOPIC_BYTES_V1:
        return _SHORT.pack(len(topic)) + topic
    return bytes((len(topic),)) + topic


def packed_size(topic: bytes, body: bytes, properties: bytes, born: Host, store: Host) -> int:
    """Bytes of the record that ``pack`` makes of these; ``topic`` is a ``topic_part``."""
    fixed = _FIXED[len(born.ip), len(store.ip)]
    return fixed.size + len(topic) + len(body) + _SHORT.size + len(properties)


def pack(
    topic: bytes,
    body: bytes,
    properties: bytes,
    queue: int,
    queue_offset: int,
    physical_offset: int,
    born: Host,
    born_ms: int,
    store: Host,
    store_ms: int,
    flag: int,
    sys_flag: int,
    reconsume_times: int,
    prepared_offset: int,
) -> bytes:
    """The record of these parts, whose sizes the caller has checked; ``topic`` is a
    ``topic_part``.
    """
    fixed = _FIXED[len(born.ip), len(store.ip)]
    head = fixed.pack(
        fixed.size + len(body) + len(topic) + _SHORT.size + len(properties),
        _magic(topic),
        crc32(body) & CRC_MASK,
        queue, flag, queue_offset, physical_offset, sys_flag & ~HOST_BITS | fixed.host_bits,
        born_ms, born.ip, born.port, store_ms, store.ip, store.port, reconsume_times,
        prepared_offset, len(body),
    )  # fmt: skip
    return b"".join((head, body, topic, _SHORT.pack(len(properties)), properties))


class Packer:
    """Records of one topic that came from one address: ``pack`` with what they share worked out."""

    __slots__ = ("_born", "_fixed", "_magic", "_shared", "_store", "_topic", "fixed_bytes")

    def __init__(
        self, topic: str, born: Host, store: Host, flag: int, sys_flag: int, reconsume_times: int
    ) -> None:
        self._topic = topic_part(topic.encode())
        self._fixed = fixed = _FIXED[len(born.ip), len(store.ip)]
        self._magic = _magic(self._topic)
        self._born, self._store = born, store
        self._shared = flag, sys_flag & ~HOST_BITS | fixed.host_bits, reconsume_times
        self.fixed_bytes = fixed.size + len(self._topic) + _SHORT.size
        """The size of a record without body and properties."""

    def pack(
        self,
        body: bytes,
        properties: bytes,
        queue: int,
        queue_offset: int,
        physical_offset: int,
        born_ms: int,
        store_ms: int,
    ) -> bytes:
        """The record of these parts, whose sizes the caller has checked."""
        flag, sys_flag, reconsume_times = self._shared
        (born_ip, born_port), (store_ip, store_port) = self._born, self._store
        head = self._fixed.pack(
            self.fixed_bytes + len(body) + len(properties), self._magic, crc32(body) & CRC_MASK,
            queue, flag, queue_offset, physical_offset, sys_flag, born_ms, born_ip, born_port,
            store_ms, store_ip, store_port, reconsume_times, 0, len(body),
        )  # fmt: skip
        return b"".join((head, body, self._topic, _SHORT.pack(len(properties)), properties))

    def pack_all(
        self,
        messages: Iterable[tuple[int, bytes, bytes]],
        queue: int,
        queue_offset: int,
        physical_offset: int,
        born_ms: int,
        store_ms: int,
    ) -> bytes:
        """The records, back to back, of neighbours in a queue. A message is its flag, which counts
        instead of the packer's, its body and its properties.
        """
        pack, short = self._fixed.pack, _SHORT.pack
        fixed_bytes, magic = self.fixed_bytes, self._magic
        _, sys_flag, reconsume_times = self._shared
        (born_ip, born_port), (store_ip, store_port) = self._born, self._store
        topic = self._topic
        pieces: list[bytes] = []
        for flag, body, text in messages:
            size, text_size = len(body), len(text)
            head = pack(
                fixed_bytes + size + text_size, magic, crc32(body) & CRC_MASK, queue, flag,
                queue_offset, physical_offset, sys_flag, born_ms, born_ip, born_port, store_ms,
                store_ip, store_port, reconsume_times, 0, size,
            )  # fmt: skip
            pieces += (head, body, topic, short(text_size), text)
            queue_offset += 1
            physical_offset += 1
        return b"".join(pieces)


def _magic(topic: bytes) -> int:
    # One byte of length before a topic of V1: a part of up to 128 bytes.
    return MAGIC_V1 if len(topic) <= TOPIC_BYTES_V1 + 1 else MAGIC_V2


def decode(data: bytes | bytearray | memoryview, place: int = 0) -> tuple[StoredMessage, int]:
    """The record at ``place``, and where the next one starts. Raises BodyError."""
    try:
        return _decode(bytes(data), place)
    except (struct.error, IndexError):
        raise BodyError(f"a stored message that is cut short, at byte {place}") from None


def decode_all(data: bytes | bytearray | memoryview) -> Iterator[StoredMessage]:
    """The records of a pull's body, one after the other. Raises BodyError."""
    place, data = 0, bytes(data)
    try:
        while place < len(data):
            message, place = _decode(data, place)
            yield message
    except (struct.error, IndexError):
        raise BodyError(f"a stored message that is cut short, at byte {place}") from None


def parts_at(record: bytes | bytearray | memoryview) -> tuple[int, int]:
    """The offsets of body and properties in a record that a broker has stored."""
    (magic,) = _LENGTH.unpack_from(record, _MAGIC_AT)
    (sys_flag,) = _LENGTH.unpack_from(record, SYS_FLAG_AT)
    # Each of the two hosts that is IPv6 moves the body by 12 bytes (RocketMQ spec 3.1).
    place = BODY_LENGTH_AT + IPV6_EXTRA * (sys_flag & HOST_BITS).bit_count()
    (length,) = _LENGTH.unpack_from(record, place)
    body_at = place + _LENGTH.size
    place = body_at + length
    if magic & 0xFF == MAGIC_V1 & 0xFF:
        place += 1 + record[place]
    else:
        place += _SHORT.size + _SHORT.unpack_from(record, place)[0]
    return body_at, place + _SHORT.size


def properties_text(record: bytes | bytearray | memoryview) -> str:
    """The properties of a record that a broker has stored, without decoding the rest."""
    return str(record[parts_at(record)[1] :], "utf-8", "replace")


def _decode(data: bytes, start: int) -> tuple[StoredMessage, int]:
    # Consumers spend most of their time here: no call for what an expression does.
    (sys_flag,) = _LENGTH.unpack_from(data, start + SYS_FLAG_AT)
    fixed = _FIXED_BY_BITS[sys_flag & HOST_BITS]
    (total, magic, crc, queue, flag, queue_offset, physical_offset, _, born_ms, born_ip, born_port,
     store_ms, store_ip, store_port, reconsume_times, prepared_offset, length) = (
        fixed.unpack_from(data, start)
    )  # fmt: skip
    if magic not in _MAGICS:
        raise BodyError(f"a stored message with the magic {magic:08X}, at byte {start}")
    end = start + total
    if end > len(data):
        raise BodyError(f"a stored message of {total} bytes that is cut short, at byte {start}")
    if not 0 <= length < total:
        raise _bad_length(length, start)
    place = start + fixed.size
    topic_at = place + length
    body = data[place:topic_at]
    if crc32(body) & CRC_MASK != crc:
        raise BodyError(f"a stored message whose body has changed, at byte {start}")
    if magic == MAGIC_V1:
        length = data[topic_at]
        topic_at += 1
    else:
        (length,) = _SHORT.unpack_from(data, topic_at)
        topic_at += _SHORT.size
    if length < 0:
        raise _bad_length(length, start)
    place = topic_at + length
    topic = data[topic_at:place]
    (length,) = _SHORT.unpack_from(data, place)
    place += _SHORT.size
    if length < 0:
        raise _bad_length(length, start)
    # Java steps on by the fields, not by the size (RocketMQ spec 3.1); a record in which the two
    # differ would be read in two ways.
    if place + length != end:
        size = place + length - start
        raise BodyError(f"a stored message of {size} bytes says {total}, at byte {start}")
    message = StoredMessage(
        topic.decode("utf-8", "replace"), body, queue, queue_offset, physical_offset,
        _host(born_ip, born_port), _host(store_ip, store_port), born_ms, store_ms,
        data[place:end].decode("utf-8", "replace"), flag, sys_flag, reconsume_times,
        prepared_offset,
    )  # fmt: skip
    return message, end


_host = lru_cache(maxsize=256)(Host)
"""A host; all messages of a pull have the same few."""


def _bad_length(length: int, place: int) -> BodyError:
    return BodyError(f"a length of {length} in a stored message, at byte {place}")

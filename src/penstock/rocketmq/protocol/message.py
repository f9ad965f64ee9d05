"""A stored message: the record that brokers keep and consumers pull (reference 3.1).

Big endian; an IPv6 host takes 16 bytes instead of 4 and sets a bit of the sysFlag::

    0   TOTALSIZE 4, MAGIC 4, BODYCRC 4, QUEUEID 4, FLAG 4
    20  QUEUEOFFSET 8, PHYSICALOFFSET 8, SYSFLAG 4, BORNTIMESTAMP 8
    48  BORNHOST 4 + 4, STORETIMESTAMP 8, STOREHOST 4 + 4
        RECONSUMETIMES 4, PREPAREDOFFSET 8
        body length 4 + body, topic length 1 (V1) or 2 (V2) + topic, properties length 2 + text
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final
from zlib import crc32

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.properties import BYTES_MAX

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
TOPIC_BYTES_V1: Final = 127

QUEUE_OFFSET_AT: Final = 20
"""Where a broker writes what it knows only when it appends: queue and physical offset."""

_HOST_BITS: Final = 0x30
_HEAD = struct.Struct(">IIIiiqqiq")
_TIMES = struct.Struct(">iq")
_LENGTH = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LONG = struct.Struct(">q")


class SysFlag(IntFlag):
    """Bits of the sysFlag (reference 3.2); bits 8 to 10 are the kind of compression."""

    COMPRESSED = 0x1
    MULTI_TAG = 0x2
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC
    BORN_HOST_IPV6 = 0x10
    STORE_HOST_IPV6 = 0x20


TRANSACTION_BITS: Final = 0xC


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
    long_topic = len(topic) > TOPIC_BYTES_V1
    born, store = message.born_host, message.store_host
    sys_flag = message.sys_flag & ~_HOST_BITS
    sys_flag |= SysFlag.BORN_HOST_IPV6 if born.is_ipv6 else 0
    sys_flag |= SysFlag.STORE_HOST_IPV6 if store.is_ipv6 else 0
    rest = b"".join(
        (
            born.ip, _LENGTH.pack(born.port),
            _LONG.pack(message.store_ms),
            store.ip, _LENGTH.pack(store.port),
            _TIMES.pack(message.reconsume_times, message.prepared_offset),
            _LENGTH.pack(len(message.body)), message.body,
            _SHORT.pack(len(topic)) if long_topic else bytes((len(topic),)), topic,
            _SHORT.pack(len(properties)), properties,
        )
    )  # fmt: skip
    head = _HEAD.pack(
        _HEAD.size + len(rest), MAGIC_V2 if long_topic else MAGIC_V1, body_crc(message.body),
        message.queue, message.flag, message.queue_offset, message.physical_offset, sys_flag,
        message.born_ms,
    )  # fmt: skip
    return head + rest


def decode(data: bytes | memoryview, place: int = 0) -> tuple[StoredMessage, int]:
    """The record at ``place``, and where the next one starts. Raises BodyError."""
    try:
        return _decode(data, place)
    except (struct.error, IndexError):
        raise BodyError(f"a stored message that is cut short, at byte {place}") from None


def decode_all(data: bytes | memoryview) -> Iterator[StoredMessage]:
    """The records of a pull's body, one after the other. Raises BodyError."""
    place = 0
    while place < len(data):
        message, place = decode(data, place)
        yield message


def _decode(data: bytes | memoryview, start: int) -> tuple[StoredMessage, int]:
    (total, magic, crc, queue, flag, queue_offset, physical_offset, sys_flag, born_ms) = (
        _HEAD.unpack_from(data, start)
    )
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise BodyError(f"a stored message with the magic {magic:08X}, at byte {start}")
    if total > len(data) - start:
        raise BodyError(f"a stored message of {total} bytes that is cut short, at byte {start}")
    born, place = _host(data, start + _HEAD.size, bool(sys_flag & SysFlag.BORN_HOST_IPV6))
    (store_ms,) = _LONG.unpack_from(data, place)
    store, place = _host(data, place + 8, bool(sys_flag & SysFlag.STORE_HOST_IPV6))
    reconsume_times, prepared_offset = _TIMES.unpack_from(data, place)
    body, place = _sized(data, place + _TIMES.size, _LENGTH)
    if body_crc(body) != crc:
        raise BodyError(f"a stored message whose body has changed, at byte {start}")
    if magic == MAGIC_V1:
        length, place = data[place], place + 1
        topic, place = bytes(data[place : place + length]), place + length
    else:
        topic, place = _sized(data, place, _SHORT)
    properties, place = _sized(data, place, _SHORT)
    if place != start + total:
        raise BodyError(f"a stored message of {place - start} bytes says {total}, at byte {start}")
    message = StoredMessage(
        topic.decode("utf-8", "replace"), body, queue, queue_offset, physical_offset, born, store,
        born_ms, store_ms, properties.decode("utf-8", "replace"), flag, sys_flag, reconsume_times,
        prepared_offset,
    )  # fmt: skip
    return message, place


def _host(data: bytes | memoryview, place: int, is_ipv6: bool) -> tuple[Host, int]:
    end = place + (16 if is_ipv6 else 4)
    (port,) = _LENGTH.unpack_from(data, end)
    return Host(bytes(data[place:end]), port), end + 4


def _sized(data: bytes | memoryview, place: int, size: struct.Struct) -> tuple[bytes, int]:
    (length,) = size.unpack_from(data, place)
    place += size.size
    if length < 0 or place + length > len(data):
        raise BodyError(f"a length of {length} in a stored message, at byte {place}")
    return bytes(data[place : place + length]), place + length

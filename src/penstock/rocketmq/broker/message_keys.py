"""The keys by which a stored message is found: its ``UNIQ_KEY`` and every word of its ``KEYS``.

They are taken from the bytes of a batch without decoding its messages, as this is done for each.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from typing import Final

from xxhash import xxh32_intdigest

from penstock.rocketmq.protocol.message import (
    BODY_LENGTH_AT,
    HOST_BITS,
    IPV6_EXTRA,
    MAGIC_V1,
    SYS_FLAG_AT,
    TRANSACTION_BITS,
    SysFlag,
)
from penstock.rocketmq.protocol.properties import KEYS, NAME_END, UNIQUE_KEY, VALUE_END
from penstock.storage.batch import Batch, Dialect

_MAGIC_END: Final = 7
"""The byte in which the two magic numbers differ."""
_MAGIC_V1_END: Final = MAGIC_V1 & 0xFF
_FLAG_AND_BODY = struct.Struct(">i44xi").unpack_from
"""The sysFlag, and the length of the body when both hosts are IPv4."""
_BODY_AT: Final = BODY_LENGTH_AT + 4
_LENGTH = struct.Struct(">i")
_ODD_FLAGS: Final = HOST_BITS | TRANSACTION_BITS

_UNIQUE: Final = f"{UNIQUE_KEY}{NAME_END}".encode()
_UNIQUE_LENGTH: Final = len(_UNIQUE)
_KEYS: Final = f"{KEYS}{NAME_END}".encode()
_KEYS_LENGTH: Final = len(_KEYS)
_VALUE_END: Final = VALUE_END.encode()

hash_of = xxh32_intdigest
"""The 32 bits under which a key, as bytes, stands in the index."""


def rows(batches: Iterable[Batch], first: int) -> tuple[array[int], array[int]]:
    """Hashes of the keys in these batches, and the offsets they belong to, counted from ``first``.

    Only messages of this dialect have keys. One loop without calls of our own: every message goes
    through it.
    """
    hashes, numbers = array("I"), array("I")
    add_hash, add_number = hashes.append, numbers.append
    for batch in batches:
        if batch.dialect != Dialect.ROCKETMQ:
            continue
        data = bytes(batch.frames)
        number = batch.first_offset - first
        find = data.find
        start = 0
        for end in (len(data),) if batch.count == 1 else batch.positions()[1:].tolist():
            sys_flag, body_length = _FLAG_AND_BODY(data, start + SYS_FLAG_AT)
            if sys_flag & _ODD_FLAGS or data[start + _MAGIC_END] != _MAGIC_V1_END:
                for key in _keys(data, start, end):
                    add_hash(hash_of(key))
                    add_number(number)
            else:
                place = start + _BODY_AT + body_length
                place += 3 + data[place]
                found = find(_UNIQUE, place, end)
                if found > place and data[found - 1] != 2:
                    found = _find(data, _UNIQUE, place, end)
                if found >= 0:
                    found += _UNIQUE_LENGTH
                    stop = find(_VALUE_END, found, end)
                    add_hash(hash_of(data[found : end if stop < 0 else stop]))
                    add_number(number)
                found = find(_KEYS, place, end)
                if found > place and data[found - 1] != 2:
                    found = _find(data, _KEYS, place, end)
                if found >= 0:
                    found += _KEYS_LENGTH
                    stop = find(_VALUE_END, found, end)
                    words = data[found : end if stop < 0 else stop]
                    for word in words.split(b" ") if b" " in words else (words,):
                        add_hash(hash_of(word))
                        add_number(number)
            start = end
            number += 1
    return hashes, numbers


def keys(frame: bytes) -> list[bytes]:
    """The keys of one stored message."""
    return _keys(frame, 0, len(frame))


def _keys(data: bytes, start: int, end: int) -> list[bytes]:
    place = start + _BODY_AT
    sys_flag, body_length = _FLAG_AND_BODY(data, start + SYS_FLAG_AT)
    if sys_flag & _ODD_FLAGS:
        if sys_flag & TRANSACTION_BITS == SysFlag.ROLLBACK:
            return []
        place += IPV6_EXTRA * (sys_flag & HOST_BITS).bit_count()
        (body_length,) = _LENGTH.unpack_from(data, place - _LENGTH.size)
    place += body_length
    if data[start + _MAGIC_END] == _MAGIC_V1_END:
        place += 3 + data[place]  # the topic, and the length of the properties
    else:
        place += 4 + (data[place] << 8) + data[place + 1]
    unique = _value(data, _UNIQUE, place, end)
    words = _value(data, _KEYS, place, end)
    return [key for key in (unique, *words.split(b" ")) if key]


def _value(data: bytes, name: bytes, start: int, end: int) -> bytes:
    """A property, of those at ``[start, end)``; nothing when it is not there."""
    place = _find(data, name, start, end)
    if place < 0:
        return b""
    place += len(name)
    stop = data.find(_VALUE_END, place, end)
    return data[place : end if stop < 0 else stop]


def _find(data: bytes, name: bytes, start: int, end: int) -> int:
    """Where a property begins; -1 when it is not there. A longer name may end like this one."""
    place = data.find(name, start, end)
    while place > start and data[place - 1] != 2:
        place = data.find(name, place + 1, end)
    return place

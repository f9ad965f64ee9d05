"""The keys by which a stored message is found: its ``UNIQ_KEY`` and every word of its ``KEYS``.

They are taken from the bytes of a batch without decoding its messages, as this is done for each.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from xxhash import xxh32_intdigest

from penstock.rocketmq.protocol.messages.message import (
    BODY_LENGTH_AT,
    HOST_BITS,
    IPV6_EXTRA,
    MAGIC_V1,
    SYS_FLAG_AT,
    TRANSACTION_BITS,
    SysFlag,
)
from penstock.rocketmq.protocol.messages.properties import KEYS, NAME_END, UNIQUE_KEY, VALUE_END
from penstock.storage.batch import Batch, Dialect

if TYPE_CHECKING:
    import numpy.typing as npt

Words: TypeAlias = "npt.NDArray[np.uint32]"

_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_LANES: Final = (606290984, 2246822519, 0, 1640531535)
"""Start values of the four accumulators: two primes' sum, the second, 0, minus the first."""
_STRIPE: Final = 16


def hashes_of(keys: npt.NDArray[np.uint8]) -> Words:
    """The hash of each row of a table of bytes."""
    length = keys.shape[1]
    stripes, words = length // _STRIPE, length // 4
    columns: Words = np.ascontiguousarray(keys[:, : 4 * words]).view("<u4")
    if stripes:
        lanes: Words = np.broadcast_to(np.array(_LANES, np.uint32), (len(keys), 4))
        for number in range(stripes):
            lanes = _rotated(lanes + columns[:, 4 * number : 4 * number + 4] * _PRIME_2, 13)
            lanes *= _PRIME_1
        hashes = _rotated(lanes[:, 0], 1) + _rotated(lanes[:, 1], 7)
        hashes += _rotated(lanes[:, 2], 12) + _rotated(lanes[:, 3], 18)
    else:
        hashes = np.full(len(keys), _PRIME_5, np.uint32)
    hashes += np.uint32(length)
    for number in range(4 * stripes, words):
        hashes = _rotated(hashes + columns[:, number] * _PRIME_3, 17) * _PRIME_4
    for number in range(4 * words, length):
        hashes = _rotated(hashes + keys[:, number].astype(np.uint32) * _PRIME_5, 11) * _PRIME_1
    hashes ^= hashes >> np.uint32(15)
    hashes *= _PRIME_2
    hashes ^= hashes >> np.uint32(13)
    hashes *= _PRIME_3
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _rotated(words: Words, bits: int) -> Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


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
_STRIDE: Final = attrgetter("stride")

FEW: Final = 16
"""The number of messages below which they are quicker done one by one."""

hash_of = xxh32_intdigest
"""The 32 bits under which a key, as bytes, stands in the index."""


def rows(batches: Sequence[Batch], first: int) -> tuple[array[int], array[int]]:
    """Hashes of the keys in these batches, and the offsets they belong to, counted from ``first``.

    Only messages of this dialect have keys.
    """
    hashes, numbers = array("I"), array("I")
    for stride, run in groupby(batches, _STRIDE):
        alike = list(run)
        if not stride or not _add_alike(alike, first, hashes, numbers):
            _add_each(alike, first, hashes, numbers)
    return hashes, numbers


def _add_alike(
    batches: Sequence[Batch], first: int, hashes: array[int], numbers: array[int]
) -> bool:
    """Add the rows of batches whose frames are of one size, if they are neighbours and all their
    messages are of one layout: the same properties at the same places, but for the values of keys,
    none of several words. Otherwise add nothing and say no.
    """
    start, end = batches[0].first_offset, batches[-1].next_offset
    count = end - start
    if count < FEW or any(batch.dialect != Dialect.ROCKETMQ for batch in batches):
        return False
    data = b"".join([batch.frames for batch in batches])
    stride = batches[0].stride
    if len(data) != count * stride:
        return False  # between them is what was damaged
    sys_flag, body_length = _FLAG_AND_BODY(data, SYS_FLAG_AT)
    if sys_flag & _ODD_FLAGS or data[_MAGIC_END] != _MAGIC_V1_END:
        return False
    topic_at = _BODY_AT + body_length
    text_at = topic_at + 3 + data[topic_at]
    table = np.frombuffer(data, np.uint8).reshape(count, stride)
    spans = [_span(data, _UNIQUE, text_at, stride), _span(data, _KEYS, text_at, stride)]
    values = [table[:, slice(*span)] for span in spans if span is not None]
    borders = sorted(sum([span for span in spans if span is not None], (text_at, stride)))
    same = [
        (_MAGIC_END, _MAGIC_END + 1),
        (SYS_FLAG_AT, SYS_FLAG_AT + 4),
        (BODY_LENGTH_AT, _BODY_AT),
        (topic_at, topic_at + 1),
        *zip(borders[::2], borders[1::2], strict=True),
    ]
    if any(table[:, a:b].tobytes() != data[a:b] * count for a, b in same):
        return False
    texts = [value.tobytes() for value in values]
    if any(_VALUE_END in text or b" " in text for text in texts):
        return False
    if values:
        columns = np.stack([hashes_of(value) for value in values], axis=1)
        hashes.frombytes(columns.tobytes())
        offsets = np.arange(start - first, end - first, dtype=np.uint32)
        numbers.frombytes(offsets.repeat(len(values)).tobytes())
    return True


def _span(data: bytes, name: bytes, start: int, end: int) -> tuple[int, int] | None:
    """From where to where the value of a property stands, of those at ``[start, end)``."""
    place = _find(data, name, start, end)
    if place < 0:
        return None
    place += len(name)
    stop = data.find(_VALUE_END, place, end)
    return place, end if stop < 0 else stop


def _add_each(
    batches: Iterable[Batch], first: int, hashes: array[int], numbers: array[int]
) -> None:
    """Add the rows of batches message by message: one loop that calls no function of ours."""
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
                at = find(_UNIQUE, place, end)
                if at > place and data[at - 1] != 2:
                    at = _find(data, _UNIQUE, place, end)
                if at >= 0:
                    at += _UNIQUE_LENGTH
                    stop = find(_VALUE_END, at, end)
                    add_hash(hash_of(data[at : end if stop < 0 else stop]))
                    add_number(number)
                at = find(_KEYS, place, end)
                if at > place and data[at - 1] != 2:
                    at = _find(data, _KEYS, place, end)
                if at >= 0:
                    at += _KEYS_LENGTH
                    stop = find(_VALUE_END, at, end)
                    words = data[at : end if stop < 0 else stop]
                    for word in words.split(b" ") if b" " in words else (words,):
                        add_hash(hash_of(word))
                        add_number(number)
            start = end
            number += 1


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
    """The start of a property; -1 when it is not there. A longer name may end like this one."""
    place = data.find(name, start, end)
    # RocketMQ spec 3.3: 2 is the byte that ends a property.
    while place > start and data[place - 1] != 2:
        place = data.find(name, place + 1, end)
    return place

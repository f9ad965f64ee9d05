"""Frames of journals, read from intact and from damaged bytes."""

from __future__ import annotations

import struct

import pytest
from xxhash import xxh3_64_intdigest

from penstock.core.chance import SystemChance
from penstock.storage.extent import NOTHING, Extent
from penstock.storage.journal_frames import (
    HEADER_BYTES,
    encode_frames,
    mark,
    queues_named,
    read_frames,
    whole_bytes,
)

QUEUE = 77
EXTENT = Extent(3, 5, 9)
RECORDS = [b"first", b"\0" * 30, b"PSJ1", b"last"]
WHOLE = encode_frames(RECORDS, QUEUE, EXTENT)
ENDS = [sum(HEADER_BYTES + len(each) for each in RECORDS[:n]) for n in range(len(RECORDS) + 1)]
OLD_RECORDS = [
    b"\x93\xa1t\x07\xc2",
    b"\x99\xa1c\xa1a\x00\x07\x90\x90\xc2\x90\x90",
    b"\x93\xa1g\xa1r\x05",
]


def old_frames(records: list[bytes]) -> bytes:
    return b"".join(struct.pack("<IQ", len(r), xxh3_64_intdigest(r)) + r for r in records)


def test_whole_frames() -> None:
    found = read_frames(WHOLE, QUEUE)
    assert (found.records, found.end, found.extent) == (RECORDS, len(WHOLE), EXTENT)
    assert (found.damage, found.gaps, found.strangers, found.is_old) == ([], set(), set(), False)


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_whole_frames_are_measured_by_their_heads(size: int) -> None:
    measured = whole_bytes(WHOLE[:size])
    if HEADER_BYTES <= size < ENDS[1]:
        assert measured == ENDS[1], "the first one is longer"
    else:
        assert measured == max(end for end in ENDS if end <= size)


def test_a_mark_is_no_record() -> None:
    later = Extent(4, 9, 9)
    found = read_frames(WHOLE + mark(QUEUE, later), QUEUE)
    assert (found.records, found.extent) == (RECORDS, later)
    assert found.end == len(WHOLE) + HEADER_BYTES


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_cut_leaves_the_whole_frames_before_it(size: int) -> None:
    found = read_frames(WHOLE[:size], QUEUE)
    kept = sum(end <= size for end in ENDS) - 1
    assert (found.records, found.end, found.damage) == (RECORDS[:kept], ENDS[kept], [])


@pytest.mark.parametrize("byte", range(len(WHOLE)))
def test_a_flipped_bit_costs_one_record_only(byte: int) -> None:
    data = bytearray(WHOLE + mark(QUEUE, EXTENT))
    data[byte] ^= 1 << byte % 8
    hit = sum(end <= byte for end in ENDS) - 1
    found = read_frames(bytes(data), QUEUE)
    assert found.records == RECORDS[:hit] + RECORDS[hit + 1 :]
    assert (found.damage, found.gaps) == ([(ENDS[hit], ENDS[hit + 1])], {hit})


def test_frames_of_another_queue_are_damage() -> None:
    strange = encode_frames([b"x"], 78, Extent(0, 100, 100))
    found = read_frames(WHOLE + strange, QUEUE)
    assert (found.records, found.strangers, found.extent) == (RECORDS, {78}, EXTENT)
    assert found.damage == [(len(WHOLE), len(WHOLE + strange))]
    found = read_frames(strange + WHOLE, QUEUE)
    assert (found.records, found.damage, found.gaps) == (RECORDS, [(0, len(strange))], {0})


def test_frames_of_earlier_versions() -> None:
    data = old_frames(OLD_RECORDS)
    found = read_frames(data, QUEUE)
    assert (found.records, found.end, found.extent) == (OLD_RECORDS, len(data), NOTHING)
    assert found.is_old


@pytest.mark.parametrize("bit", range(0, 8 * len(old_frames(OLD_RECORDS[:2])), 3))
def test_a_flipped_bit_in_those_costs_one_record_only(bit: int) -> None:
    data = bytearray(old_frames(OLD_RECORDS))
    data[bit // 8] ^= 1 << bit % 8
    hit = int(bit // 8 >= len(old_frames(OLD_RECORDS[:1])))
    found = read_frames(bytes(data), QUEUE)
    assert found.records == OLD_RECORDS[:hit] + OLD_RECORDS[hit + 1 :]
    assert found.gaps == {hit}


def test_garbage_holds_nothing() -> None:
    chance = SystemChance(1)
    noise = bytes(chance.below(256) for _ in range(5000))
    for data in (noise, bytes(5000), b"PSJ1" * 1000, b"\x93\xa1t" * 1000):
        found = read_frames(data, QUEUE)
        assert (found.records, found.end) == ([], 0)


def test_a_megabyte_of_what_looks_like_frames_is_read_at_once() -> None:
    """A false start whose length exceeds the file costs no checksum."""
    liar = b"PSJ1" + struct.pack("<IQQQQQ", 1 << 30, 0, QUEUE, 0, 0, 0)
    found = read_frames(liar * 20_000 + WHOLE, QUEUE)
    assert found.records == RECORDS


def test_the_queues_that_frames_name() -> None:
    assert queues_named(b"?" + WHOLE + b"?" + mark(QUEUE + 1, NOTHING)) == {QUEUE, QUEUE + 1}
    assert queues_named(old_frames(OLD_RECORDS)) == set()

"""Chunks are recognised wherever they stand, and nothing else is."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

from xxhash import xxh3_64_intdigest

from penstock.storage.files.disk import OsDisk
from penstock.storage.queues.queue_chunks import (
    ReadChunks,
    encode_chunk,
    encode_mark,
    read_chunks,
)

ID_BASE = 5000
FIRST = encode_chunk(0, 0, 3, array("q", [0, 1, 2]), ID_BASE)
SECOND = encode_chunk(1, 7, 9, array("q", [3, 8]), ID_BASE)


def read(path: Path, data: bytes, log_end: int = 100) -> ReadChunks:
    file = path / "0000000000.chunks"
    file.write_bytes(data)
    return read_chunks(OsDisk().open(str(file)), ID_BASE, 0, log_end)


def test_a_chunk_says_what_was_written(tmp_path: Path) -> None:
    found = read(tmp_path, FIRST + SECOND)
    assert [(c.queue, c.first_offset, c.next_offset) for c in found.chunks] == [
        (0, 0, 3), (1, 7, 9),
    ]  # fmt: skip
    assert [list(chunk.log_offsets()) for chunk in found.chunks] == [[0, 1, 2], [3, 8]]
    assert [(c.first_log_offset, c.last_log_offset) for c in found.chunks] == [(0, 2), (3, 8)]
    assert (found.bad, found.covered, found.is_stale) == ([], 9, False)


def test_every_flipped_bit_costs_its_chunk_only(tmp_path: Path) -> None:
    data = FIRST + SECOND
    for position in range(len(data)):
        spoilt = bytearray(data)
        spoilt[position] ^= 1
        found = read(tmp_path, bytes(spoilt))
        bad = (0, len(FIRST)) if position < len(FIRST) else (len(FIRST), len(data))
        assert [place[:2] for place in found.bad] == [bad]
        assert [chunk.queue for chunk in found.chunks] == [1 if position < len(FIRST) else 0]


def test_reading_goes_on_behind_a_cut_chunk(tmp_path: Path) -> None:
    for cut in range(1, len(FIRST)):
        found = read(tmp_path, FIRST[:cut] + SECOND)
        assert [chunk.queue for chunk in found.chunks] == [1]
        assert found.bad == [(0, cut, "damaged")]


def test_reading_goes_on_behind_several_damaged_chunks(tmp_path: Path) -> None:
    spoilt = b"".join(chunk[:-1] + b"!" for chunk in (FIRST, SECOND))
    found = read(tmp_path, spoilt + SECOND)
    assert [chunk.queue for chunk in found.chunks] == [1]
    assert found.bad == [(0, len(spoilt), "damaged")]


def test_a_chunk_of_another_log_is_a_stranger(tmp_path: Path) -> None:
    strange = encode_chunk(0, 3, 50, array("q", [20]), 6000)
    found = read(tmp_path, FIRST + strange)
    assert found.bad == [(len(FIRST), len(FIRST + strange), "of another queue")]
    assert (len(found.chunks), found.covered) == (1, 3)


def test_a_chunk_of_an_earlier_version_names_no_owner(tmp_path: Path) -> None:
    checked = struct.pack("<QQII3q", 0, 3, 3, 0, 0, 1, 2)
    old = struct.pack("<4sIQ", b"PSQ1", 6, xxh3_64_intdigest(checked)) + checked
    found = read(tmp_path, old)
    assert ([chunk.queue for chunk in found.chunks], found.bad) == ([6], [])


def test_messages_that_the_log_has_lost_are_left_out_of_their_chunk(tmp_path: Path) -> None:
    found = read(tmp_path, FIRST + SECOND, log_end=8)
    assert [chunk.log_offsets().tolist() for chunk in found.chunks] == [[0, 1, 2], [3]]
    assert [chunk.last_log_offset for chunk in found.chunks] == [2, 3]
    assert (found.covered, found.is_stale, found.bad) == (8, True, [])
    found = read(tmp_path, FIRST + SECOND, log_end=3)
    assert [chunk.queue for chunk in found.chunks] == [0]
    assert (found.covered, found.is_stale) == (3, True)


def test_a_mark_says_no_more_than_the_log_has(tmp_path: Path) -> None:
    found = read(tmp_path, FIRST + encode_mark(9, ID_BASE), log_end=8)
    assert (found.safe, found.covered, found.is_stale) == (8, 8, True)


def test_a_mark_says_how_far_the_file_is_synced_and_what_is_in_chunks(tmp_path: Path) -> None:
    mark = encode_mark(9, ID_BASE)
    found = read(tmp_path, FIRST + mark + SECOND)
    assert (found.marked, found.safe) == (len(FIRST + mark), 9)
    assert ([chunk.queue for chunk in found.chunks], found.bad) == ([0, 1], [])
    assert (found.covered, found.is_stale) == (9, False)
    assert read(tmp_path, FIRST + SECOND).safe is None


def test_a_mark_of_another_log_is_a_stranger(tmp_path: Path) -> None:
    found = read(tmp_path, FIRST + encode_mark(9, 6000))
    assert (found.safe, [what for _, _, what in found.bad]) == (None, ["of another queue"])

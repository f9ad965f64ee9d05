"""The block index and its sidecar file."""

from __future__ import annotations

import struct

import pytest
from xxhash import xxh3_64_intdigest

from penstock.storage.batch import CorruptBatchError
from penstock.storage.index import BLOCK_BYTES, BlockIndex


def index(*blocks: tuple[int, int]) -> BlockIndex:
    """An index of blocks with this first offset and time."""
    made = BlockIndex()
    for number, (offset, timestamp_ns) in enumerate(blocks):
        made.note(offset, number * BLOCK_BYTES, timestamp_ns)
    assert len(made) == len(blocks)
    return made


def test_a_block_starts_when_the_one_before_is_large_enough() -> None:
    made = BlockIndex()
    made.note(0, 0, 5)
    made.note(10, BLOCK_BYTES - 1, 6)
    made.note(11, BLOCK_BYTES, 7)
    made.note(12, BLOCK_BYTES + 1, 8)
    made.note(90, 5 * BLOCK_BYTES, 9)
    assert list(made.offsets) == [0, 11, 90]
    assert list(made.positions) == [0, BLOCK_BYTES, 5 * BLOCK_BYTES]
    assert list(made.timestamps) == [5, 7, 9]


def test_block_of_an_offset() -> None:
    made = index((100, 0), (200, 0), (300, 0))
    assert [made.block_of(offset) for offset in (0, 100, 199, 200, 299, 300, 9999)] == [
        0, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert BlockIndex().block_of(5) == 0


def test_block_at_a_time_is_the_last_that_starts_earlier() -> None:
    made = index((0, 10), (1, 20), (2, 20), (3, 30))
    # At 20 the first message of that time may be the last of the block that starts at 10.
    assert [made.block_at_time(time) for time in (0, 10, 11, 20, 21, 30, 31)] == [
        0, 0, 0, 0, 2, 2, 3,
    ]  # fmt: skip
    assert BlockIndex().block_at_time(5) == 0


@pytest.mark.parametrize("blocks", [(), ((0, 1),), ((5, 1), (9, 2), (2**40, 2**60))])
def test_the_file_brings_all_back(blocks: tuple[tuple[int, int], ...]) -> None:
    made = index(*blocks)
    back, size, next_offset, timestamp_ns = BlockIndex.decode(made.encode(12345, 2**41, -7))
    assert (size, next_offset, timestamp_ns) == (12345, 2**41, -7)
    assert back.offsets == made.offsets
    assert back.positions == made.positions
    assert back.timestamps == made.timestamps


def test_every_flipped_bit_and_every_cut_of_the_file_is_found() -> None:
    data = index((0, 10), (5, 20)).encode(300_000, 9, 21)
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatchError):
            BlockIndex.decode(bytes(spoiled))
    for size in range(len(data)):
        with pytest.raises(CorruptBatchError):
            BlockIndex.decode(data[:size])
    with pytest.raises(CorruptBatchError):
        BlockIndex.decode(data + b"\0")


def test_a_right_checksum_does_not_make_a_wrong_number_of_blocks_right() -> None:
    data = index((0, 10), (5, 20)).encode(300_000, 9, 21)
    for blocks in (1, 3, 2**32 - 1):
        body = data[12:36] + struct.pack("<I", blocks) + data[40:]
        with pytest.raises(CorruptBatchError, match="size"):
            BlockIndex.decode(data[:4] + struct.pack("<Q", xxh3_64_intdigest(body)) + body)


def test_the_index_of_another_segment_is_not_believed() -> None:
    data = index((0, 10)).encode(300, 9, 21, first_id=5000)
    assert BlockIndex.decode(data, 5000)[1] == 300
    with pytest.raises(CorruptBatchError, match="another segment"):
        BlockIndex.decode(data, 5009)


def test_an_index_of_earlier_versions_names_no_segment() -> None:
    assert BlockIndex.decode(index((0, 10)).encode(300, 9, 21), 5009)[1] == 300

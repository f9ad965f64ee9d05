"""Batches, the blocks, outlines and tails that hold them, and the index that finds a block."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import pytest
import xxhash
from xxhash import xxh3_64_intdigest

from penstock.core.ranges import RangeSet
from penstock.storage import compiled
from penstock.storage.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    Batch,
    CorruptBatchError,
    Dialect,
    TruncatedBatchError,
    check_header,
    iter_batches,
)
from penstock.storage.cache import Block, BlockCache
from penstock.storage.index import BLOCK_BYTES, BlockIndex
from penstock.storage.outline import Outline
from penstock.storage.recovery.scan import scan
from penstock.storage.tail import Tail
from tools.harness.small_logs import bodies_of, make

EQUAL = (b"one", b"two", b"six")
MIXED = (b"a", b"", b"long body", b"bc")


def fields(batch: Batch) -> tuple[object, ...]:
    return (batch.first_offset, batch.first_id, batch.timestamp_ns, batch.delay_ns, batch.count,
            batch.stride, batch.dialect, batch.next_offset, bytes(batch.frames))  # fmt: skip


def sealed(raw: bytes) -> bytes:
    """The bytes with the checksum that belongs to them."""
    return raw[:8] + struct.pack("<Q", xxh3_64_intdigest(raw[16:])) + raw[16:]


@pytest.mark.parametrize("bodies", [EQUAL, MIXED, (b"alone",), (b"",), (b"", b"")])
def test_what_is_built_is_parsed(bodies: tuple[bytes, ...]) -> None:
    built = make(7, *bodies)
    parsed = Batch.parse(bytes(built.raw))
    assert fields(parsed) == fields(built)
    assert bodies_of([parsed]) == dict(enumerate(bodies, 7))
    assert parsed.positions().tolist() == built.positions().tolist()
    assert parsed.raw == built.raw


@pytest.mark.parametrize("body", [b"x", b"x" * 1000])
def test_a_batch_of_one_is_what_build_makes(body: bytes) -> None:
    built = make(7, body)
    one = Batch.of_one(7, built.first_id, built.timestamp_ns, bytes(built.frames))
    assert bytes(one.raw) == bytes(built.raw)
    assert fields(one) == fields(built)


def test_a_batch_of_one_may_be_of_any_dialect_and_queue() -> None:
    built = Batch.build(7, 1007, 5, 1, 4, [b"body"], dialect=Dialect.ROCKETMQ, queue=3)
    one = Batch.of_one(7, 1007, 5, b"body", Dialect.ROCKETMQ, 3)
    assert bytes(one.raw) == bytes(built.raw)
    assert fields(one) == fields(built)


def test_the_layout_is_as_written_down() -> None:
    raw = bytes(
        Batch.build(
            5, 1005, -3, 2, 0, [b"ab", b"cdefg"], table=np.array([0, 2, 7], np.uint32),
            delay_ns=9, dialect=Dialect.ROCKETMQ,
        ).raw
    )  # fmt: skip
    assert raw[:4] == b"PSB1"
    assert struct.unpack_from("<I", raw, 4) == (len(raw),)
    assert struct.unpack_from("<Q", raw, 8) == (xxh3_64_intdigest(raw[16:]),)
    assert struct.unpack_from("<QQqqIIBBHI", raw, 16) == (5, 1005, -3, 9, 2, 0, 1, 1, 0, 0)
    assert struct.unpack_from("<III", raw, HEADER_BYTES) == (0, 2, 7)
    assert raw[HEADER_BYTES + 12 :] == b"abcdefg"


def test_frames_may_come_in_pieces() -> None:
    pieces: list[bytes | bytearray | memoryview] = [b"on", memoryview(b"etw"), bytearray(b"osix")]
    assert Batch.build(0, 0, 0, 3, 3, pieces).raw == Batch.build(0, 0, 0, 3, 3, [b"onetwosix"]).raw


def test_parse_starts_where_it_is_told_and_copies_nothing() -> None:
    raw = bytearray(b"###" + bytes(make(1, *EQUAL).raw) + b"behind")
    batch = Batch.parse(raw, 3)
    assert bodies_of([batch]) == {1: b"one", 2: b"two", 3: b"six"}
    raw[3 + HEADER_BYTES] = ord("O")
    assert bodies_of([batch])[1] == b"One"
    with pytest.raises(CorruptBatchError):
        Batch.parse(raw, 2)


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
def test_slices_and_positions_count_in_log_offsets(bodies: tuple[bytes, ...]) -> None:
    batch = Batch.parse(bytes(make(40, *bodies).raw))
    ends = [sum(map(len, bodies[:n])) for n in range(len(bodies) + 1)]
    assert batch.positions().tolist() == ends
    assert [batch.position(40 + n) for n in range(len(bodies) + 1)] == ends
    for first in range(len(bodies)):
        for last in range(first + 1, len(bodies) + 1):
            assert batch.slice(40 + first, 40 + last) == b"".join(bodies[first:last])
    for outside in (39, 41 + len(bodies)):
        with pytest.raises(AssertionError):
            batch.position(outside)
        with pytest.raises(AssertionError):
            batch.slice(min(outside, 40), max(outside, 41))


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
def test_every_cut_is_truncated(bodies: tuple[bytes, ...]) -> None:
    raw = bytes(make(0, *bodies).raw)
    for size in range(len(raw)):
        with pytest.raises(TruncatedBatchError):
            Batch.parse(raw[:size])


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
def test_every_flipped_bit_is_found(bodies: tuple[bytes, ...]) -> None:
    raw = bytes(make(0, *bodies).raw) + bytes(200)
    for bit in range(8 * (len(raw) - 200)):
        spoiled = bytearray(raw)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatchError):
            Batch.parse(spoiled)


def test_the_checksum_is_only_looked_at_when_asked() -> None:
    raw = bytearray(make(0, *EQUAL).raw)
    raw[-1] ^= 1
    batch = Batch.parse(raw, verify=False)
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 0"):
        batch.verify()
    with pytest.raises(CorruptBatchError, match="checksum"):
        Batch.parse(raw)


@pytest.mark.parametrize(
    ("place", "form", "value", "text"),
    [
        (0, "<4s", b"PSB2", "no batch starts here"),
        (57, "<B", 2, "unknown version 2"),
        (57, "<B", 0, "unknown version 0"),
        (48, "<I", 0, "0 messages"),
        (48, "<I", 4, "too short for 4 messages"),
        (48, "<I", 2, "too short"),
        (48, "<I", 2**32 - 1, "too short"),
        (52, "<I", 4, "too short"),
        (52, "<I", 2, "too short"),
        (4, "<I", HEADER_BYTES - 1, "too short"),
        (4, "<I", 0, "too short"),
        (4, "<I", BATCH_BYTES_MAX + 1, "messages in"),
    ],
)
def test_each_header_check_with_a_right_checksum(
    place: int, form: str, value: Any, text: str
) -> None:
    raw = bytearray(make(0, *EQUAL).raw)
    struct.pack_into(form, raw, place, value)
    with pytest.raises(CorruptBatchError, match=text) as caught:
        Batch.parse(sealed(bytes(raw)))
    assert not isinstance(caught.value, TruncatedBatchError)


def test_a_batch_without_messages_is_none() -> None:
    raw = bytearray(make(0, *EQUAL).raw[:HEADER_BYTES])
    struct.pack_into("<I", raw, 4, HEADER_BYTES)
    struct.pack_into("<I", raw, 48, 0)
    with pytest.raises(CorruptBatchError, match="batch with 0 messages"):
        Batch.parse(sealed(bytes(raw)))


def test_a_table_must_fit_its_batch() -> None:
    raw = bytearray(make(0, *MIXED).raw)
    struct.pack_into("<I", raw, 48, 100)
    with pytest.raises(CorruptBatchError, match="too short for 100 messages"):
        Batch.parse(sealed(bytes(raw)))
    check_header(b"PSB1", HEADER_BYTES + 8, 1, 0, 1)
    with pytest.raises(CorruptBatchError):
        check_header(b"PSB1", HEADER_BYTES + 7, 1, 0, 1)


def test_build_wants_messages_and_a_table_or_a_stride() -> None:
    with pytest.raises(AssertionError):
        Batch.build(0, 0, 0, 0, 3, [])
    with pytest.raises(AssertionError):
        Batch.build(0, 0, 0, 1, 0, [b"abc"])
    with pytest.raises(AssertionError):
        Batch.build(0, 0, 0, 1, 3, [b"abc"], table=np.array([0, 3], np.uint32))


def test_iteration_leaves_out_a_cut_last_batch_and_stops_at_a_bad_one() -> None:
    raws = [bytes(make(0, *EQUAL).raw), bytes(make(3, *MIXED).raw), bytes(make(7, b"z").raw)]
    whole = b"".join(raws)
    assert [batch.first_offset for batch in iter_batches(whole)] == [0, 3, 7]
    assert [batch.first_offset for batch in iter_batches(memoryview(whole)[:-1])] == [0, 3]
    assert list(iter_batches(b"")) == []
    spoiled = bytearray(whole)
    spoiled[len(raws[0]) + len(raws[1]) - 1] ^= 1
    iterator = iter_batches(spoiled)
    assert next(iterator).first_offset == 0
    with pytest.raises(CorruptBatchError):
        next(iterator)
    assert len(list(iter_batches(spoiled, verify=False))) == 3


def test_a_note_stands_behind_the_frames_and_is_no_part_of_them() -> None:
    table = np.array([0, 2, 5], np.uint32)
    built = Batch.build(7, 70, 1, 2, 0, [b"ab", b"cde"], table=table, note=b"whence")
    for batch in (built, Batch.parse(built.raw)):
        assert bytes(batch.frames) == b"abcde"
        assert bytes(batch.note) == b"whence"
        assert bytes(batch.slice(8, 9)) == b"cde"
    assert len(built.raw) == 64 + 12 + 5 + 6
    flipped = bytearray(built.raw)
    flipped[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        Batch.parse(flipped)
    assert scan(bytes(built.raw)).batches[0].note == b"whence"


def test_only_a_batch_with_a_table_has_room_for_a_note() -> None:
    with pytest.raises(AssertionError):
        Batch.build(0, 0, 1, 1, 2, [b"ab"], note=b"x")
    assert bytes(Batch.parse(Batch.build(0, 0, 1, 1, 2, [b"ab"]).raw).note) == b""


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("went_before", [False, True])
@pytest.mark.parametrize("note", [b"", b"who"])
def test_a_batch_says_whether_others_belong_to_it(
    goes_on: bool, went_before: bool, note: bytes
) -> None:
    table = np.array([0, 1], np.uint32)
    built = Batch.build(0, 0, 0, 1, 0, [b"a"], table=table, note=note,
                        goes_on=goes_on, went_before=went_before)  # fmt: skip
    for each in (built, Batch.parse(built.raw)):
        assert (each.goes_on, each.went_before) == (goes_on, went_before)
        assert each.is_part == (goes_on or went_before)
        assert (bytes(each.frames), bytes(each.note)) == (b"a", note)


def test_a_batch_is_moved_to_another_place_with_its_frames_and_delay() -> None:
    for table in (None, np.array([0, 2, 4], np.uint32)):
        made = Batch.build(3, 9, 1, 2, 0 if table is not None else 2, [b"aabb"], table=table,
                           delay_ns=5)  # fmt: skip
        moved = made.moved(70, 900, 11, 4, goes_on=True, went_before=True)
        for each in (moved, Batch.parse(bytes(moved.raw))):
            assert (each.first_offset, each.next_offset, each.first_id) == (70, 72, 900)
            assert (each.timestamp_ns, each.queue, each.delay_ns) == (11, 4, 5)
            assert each.goes_on
            assert each.went_before
            assert bytes(each.slice(71, 72)) == b"bb"


def test_a_head_knows_the_place_and_the_size_of_its_batch() -> None:
    made = Batch.build(3, 9, 1, 2, 2, [b"aabb"], queue=6)
    head = made.head()
    assert (made.is_head, head.is_head) == (False, True)
    assert made.nbytes == head.nbytes == len(made.raw) == 68
    assert (head.first_offset, head.next_offset, head.count, head.queue) == (3, 5, 2, 6)
    assert len(head.raw) == 64


def test_a_batch_and_its_head_state_the_same_checksum() -> None:
    batch = make(0, *EQUAL)
    assert batch.checksum == batch.head().checksum == xxh3_64_intdigest(bytes(batch.raw[16:]))


# --- Batches and commands where msgspec and xxhash are not installed -----------------------------


def test_a_broker_has_the_compiled_ones() -> None:
    assert compiled.Struct is msgspec.Struct
    assert compiled.xxh3_64_intdigest is xxhash.xxh3_64_intdigest
    assert compiled.CHECKSUMS


# --- Blocks: finding a batch in one, and how many stay in memory ---------------------------------


def block(*spans: tuple[int, int], nbytes: int = 100) -> Block:
    """A block of one batch per half-open span of offsets."""
    return Block([make(first, *[b"x"] * (last - first)) for first, last in spans], bytes(nbytes))


def test_find_gives_the_first_batch_that_ends_behind_the_offset() -> None:
    found = block((10, 12), (12, 13), (13, 20))
    assert [found.find(offset) for offset in (0, 10, 11, 12, 13, 19, 20, 99)] == [
        0, 0, 0, 1, 2, 2, 3, 3,
    ]  # fmt: skip


def test_find_steps_over_gaps() -> None:
    found = block((10, 12), (20, 22), (30, 31))
    assert [found.find(offset) for offset in (11, 12, 19, 20, 21, 22, 29, 31)] == [
        0, 1, 1, 1, 1, 2, 2, 3,
    ]  # fmt: skip


def test_find_in_a_block_of_one_or_no_batch() -> None:
    assert [block((5, 7)).find(offset) for offset in (0, 5, 6, 7)] == [0, 0, 0, 1]
    assert block().find(3) == 0


def test_a_block_costs_its_bytes_and_something_for_each_batch() -> None:
    assert block((0, 1), nbytes=1000).nbytes > 1000
    many = block(*[(n, n + 1) for n in range(10)], nbytes=1000)
    assert many.nbytes - 1000 == 10 * (block((0, 1), nbytes=1000).nbytes - 1000)


def test_the_least_recently_used_block_leaves_first() -> None:
    one = block((0, 1))
    cache = BlockCache(3 * one.nbytes)
    for number in range(3):
        cache.put((1, number, 0), block((0, 1)))
    assert cache.get((1, 0, 0)) is not None  # used again, so that 1 is the oldest now
    cache.put((1, 3, 0), block((0, 1)))
    assert [number for number in range(4) if cache.get((1, number, 0))] == [0, 2, 3]
    assert len(cache) == 3


def test_a_key_that_is_put_again_counts_once() -> None:
    cache = BlockCache(2 * block((0, 1)).nbytes)
    for _ in range(10):
        newest = block((0, 1))
        cache.put((1, 0, 0), newest)
    cache.put((1, 1, 0), block((0, 1)))
    assert cache.get((1, 0, 0)) is newest
    assert len(cache) == 2


def test_a_large_block_drives_out_all_but_itself_and_leaves_in_turn() -> None:
    cache = BlockCache(3 * block((0, 1)).nbytes)
    cache.put((1, 0, 0), block((0, 1)))
    cache.put((1, 1, 0), block((0, 1), nbytes=1_000_000))
    assert len(cache) == 1
    assert cache.get((1, 1, 0)) is not None
    cache.put((1, 2, 0), block((0, 1)))
    assert cache.get((1, 1, 0)) is None
    assert cache.get((1, 2, 0)) is not None


def test_segment_block_and_end_are_all_part_of_the_key() -> None:
    cache = BlockCache()
    cache.put((1, 2, 3), block((0, 1)))
    assert [cache.get(key) for key in ((1, 2, 4), (1, 3, 3), (2, 2, 3))] == [None] * 3


def test_an_outline_makes_room_for_its_block() -> None:
    one = block((0, 1))
    cache = BlockCache(2 * one.nbytes)
    cache.put((1, 0, 0), Outline(bytes(make(0, b"x").raw), 0))
    cache.put((1, 0, 0), one)
    assert cache.get((1, 0, 0)) is one
    cache.put((1, 1, 0), block((0, 1)))
    assert len(cache) == 2


def test_many_outlines_have_room_where_few_blocks_have() -> None:
    raw = bytes(make(0, b"x" * 10_000).raw)
    cache = BlockCache(100_000, 100_000)
    outlines = [Outline(raw, 0) for _ in range(100)]
    for number, outline in enumerate(outlines):
        cache.put((1, number, 0), outline)
    assert len(cache) == 100
    kept = [outline for outline in outlines if outline.raw is not None]
    assert kept == outlines[-9:]
    assert cache.get((1, 0, 0)) is outlines[0]


def test_outlines_leave_too_when_even_they_have_no_room() -> None:
    cache = BlockCache(1000, 2000)
    for number in range(100):
        cache.put((1, number, 0), Outline(bytes(make(0, b"x").raw), 0))
    assert len(cache) == 2 + 4
    assert [number for number in range(100) if cache.get((1, number, 0))] == [*range(94, 100)]


def test_the_batch_of_an_offset() -> None:
    found = block((10, 12), (20, 22))
    batches = [found.batch(offset) for offset in (9, 10, 11, 12, 21, 22)]
    first, second = found.batches
    assert batches == [None, first, first, None, second, None]


# --- Where the batches of a block start ----------------------------------------------------------


def test_it_tells_where_the_batch_of_an_offset_is() -> None:
    batches = [make(1000, b"a"), make(1001, b"bb", b"c"), make(1003, b"dddd")]
    raw = b"".join(batch.raw for batch in batches)
    outline = Outline(raw, 1000)
    assert len(outline) == 3
    for batch in batches:
        for offset in range(batch.first_offset, batch.next_offset):
            start, end = outline.span(offset)
            assert raw[start:end] == batch.raw


def test_a_gap_leads_to_the_batch_before_it() -> None:
    raw = bytes(make(10, b"a").raw) + bytes(make(20, b"b").raw)
    outline = Outline(raw, 10)
    assert outline.span(15) == outline.span(10)
    assert outline.span(9) == (0, 0)


def test_it_ends_where_headers_make_no_sense() -> None:
    first, second = bytes(make(0, b"a").raw), bytes(make(1, b"b").raw)
    for bad in (b"", second[:40], b"junk" + second[4:], second[:4] + bytes(4) + second[8:], first):
        outline = Outline(first + bad, 0)
        assert len(outline) == 1
        assert outline.span(0) == (0, len(first))
    assert len(Outline(b"", 0)) == 0
    assert Outline(b"", 0).span(3) == (0, 0)


def test_an_offset_too_far_from_the_first_is_left_out() -> None:
    raw = bytes(make(0, b"a").raw) + bytes(make(1 << 33, b"b").raw)
    assert len(Outline(raw, 0)) == 1


def test_the_bytes_are_kept_until_they_are_let_go() -> None:
    raw = b"".join(make(n, b"a").raw for n in range(10))
    outline = Outline(raw, 0)
    assert outline.raw == raw
    with_bytes = outline.nbytes
    outline.let_go()
    assert outline.raw is None
    assert outline.nbytes == with_bytes - len(raw)
    assert outline.span(9) == (len(raw) // 10 * 9, len(raw))


def test_without_them_it_costs_eight_bytes_a_batch() -> None:
    few, many = (
        Outline(b"".join(make(n, b"a").raw for n in range(count)), 0) for count in (10, 110)
    )
    few.let_go()
    many.let_go()
    assert many.nbytes - few.nbytes == 800


# --- The newest batches in memory: which stay, and how one is found ------------------------------


def filled(tail: Tail, *counts: int, body: bytes = b"x") -> Tail:
    """The tail with a batch of each count more."""
    first = tail.batches[-1].next_offset if tail.batches else 0
    for count in counts:
        tail.append(make(first, *[body] * count))
        first += count
    return tail


def firsts(tail: Tail) -> list[int]:
    return [batch.first_offset for batch in tail.batches]


def test_an_empty_tail_holds_nothing() -> None:
    tail = Tail(10)
    assert tail.first_offset is None
    assert tail.find(0) is None
    assert tail.nbytes == 0


def test_find_in_a_tail() -> None:
    tail = Tail(100)
    for batch in (make(10, b"a", b"b"), make(12, b"c"), make(13, b"d", b"e")):
        tail.append(batch)
    assert [tail.find(offset) for offset in (9, 10, 11, 12, 13, 14)] == [None, 0, 0, 1, 2, 2]
    assert tail.first_offset == 10


def test_it_keeps_the_newest_messages_and_not_many_more() -> None:
    tail = Tail(100)
    for _ in range(1000):
        filled(tail, 1)
        held = tail.batches[-1].next_offset - firsts(tail)[0]
        assert min(100, tail.batches[-1].next_offset) <= held <= 125
        assert tail.nbytes == sum(len(batch.raw) for batch in tail.batches)
    assert tail.find(999) == len(tail.batches) - 1
    assert tail.find(0) is None


def test_it_stays_below_its_bytes() -> None:
    size = len(make(0, b"x" * 1000).raw)
    tail = Tail(10_000, nbytes_max=10 * size)
    for _ in range(300):
        filled(tail, 1, body=b"x" * 1000)
        assert tail.nbytes <= 10 * size
    assert len(tail.batches) == 10
    assert firsts(tail)[0] == tail.first_offset == 290


def test_the_newest_batch_stays_whatever_its_size() -> None:
    tail = filled(Tail(2, nbytes_max=50), 1, 1, 500)
    assert firsts(tail) == [2]
    assert tail.find(501) == 0
    filled(tail, 1)
    assert firsts(tail) == [502]
    assert firsts(filled(Tail(0), 1, 1, 1)) == [2]


def test_keep_only_what_is_needed() -> None:
    tail = filled(Tail(100), 2, 2, 2, 2)  # 0-1, 2-3, 4-5, 6-7
    needed = RangeSet()
    needed.add(3, 4)
    needed.add(6, 20)
    tail.keep(needed)
    assert firsts(tail) == [2, 6]
    assert tail.first_offset == 2
    assert tail.nbytes == sum(len(batch.raw) for batch in tail.batches)
    tail.keep(RangeSet())
    assert (firsts(tail), tail.nbytes, tail.first_offset) == ([], 0, None)


def test_drop_and_clear() -> None:
    tail = filled(Tail(100), 1, 2, 3)
    tail.drop(2)
    assert (firsts(tail), tail.nbytes) == ([3], len(tail.batches[0].raw))
    assert tail.find(2) is None
    assert tail.find(5) == 0
    tail.clear()
    assert (firsts(tail), tail.nbytes) == ([], 0)
    assert firsts(filled(tail, 1)) == [0]


# --- The block index and its sidecar file --------------------------------------------------------


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

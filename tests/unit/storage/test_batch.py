"""The batch: what is built is what is parsed, and nothing else passes for one."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

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
from penstock.storage.recovery.scan import scan
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

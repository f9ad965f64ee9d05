"""Reading batches out of damaged bytes."""

from __future__ import annotations

import struct

from penstock.storage.batch import HEADER_BYTES
from penstock.storage.recovery.scan import BadBytes, scan
from tools.harness.small_logs import ID_BASE, bodies_of, make

ONE = bytes(make(0, b"one", b"two").raw)
TWO = bytes(make(2, b"a", b"longer").raw)
THREE = bytes(make(4, b"z").raw)
AT_TWO = len(ONE)
AT_THREE = len(ONE) + len(TWO)
WHOLE = ONE + TWO + THREE


def firsts(data: bytes, expected: int = 0, id_base: int | None = ID_BASE) -> list[int]:
    return [batch.first_offset for batch in scan(data, expected, id_base).batches]


def test_undamaged_bytes() -> None:
    found = scan(WHOLE, 0, ID_BASE)
    assert found.positions == [0, AT_TWO, AT_THREE]
    assert (found.damage, found.end, found.torn) == ([], len(WHOLE), False)
    assert bodies_of(found.batches) == dict(enumerate([b"one", b"two", b"a", b"longer", b"z"]))


def test_nothing_to_scan() -> None:
    found = scan(b"")
    assert (found.batches, found.damage, found.end, found.torn) == ([], [], 0, False)


def test_a_torn_tail() -> None:
    for size in range(AT_THREE + 1, len(WHOLE)):
        found = scan(WHOLE[:size], 0, ID_BASE)
        assert found.positions == [0, AT_TWO]
        assert found.damage == [BadBytes(AT_THREE, size)]
        assert found.end == AT_THREE
        assert found.torn


def test_damage_between_batches_is_stepped_over() -> None:
    found = scan(ONE + b"garbage" + THREE, 0, ID_BASE)
    assert found.positions == [0, len(ONE) + 7]
    assert found.damage == [BadBytes(len(ONE), len(ONE) + 7)]
    assert not found.torn


def test_damage_before_the_first_batch_and_nothing_but_damage() -> None:
    found = scan(b"\0" * 100 + WHOLE, 0, ID_BASE)
    assert found.damage == [BadBytes(0, 100)]
    assert len(found.batches) == 3
    found = scan(b"PSB1" * 100, 0, ID_BASE)
    assert (found.batches, found.damage, found.end) == ([], [BadBytes(0, 400)], 0)
    assert found.torn


def test_two_damaged_places_are_told_apart() -> None:
    spoiled = bytearray(WHOLE)
    spoiled[AT_TWO - 1] ^= 1
    spoiled[-1] ^= 1
    found = scan(spoiled, 0, ID_BASE)
    assert [batch.first_offset for batch in found.batches] == [2]
    assert found.damage == [BadBytes(0, AT_TWO), BadBytes(AT_THREE, len(WHOLE))]
    assert found.torn


def test_a_stale_batch_is_damage() -> None:
    assert firsts(ONE + TWO + ONE + THREE) == [0, 2, 4]
    assert scan(ONE + TWO + ONE + THREE, 0, ID_BASE).damage == [
        BadBytes(AT_THREE, AT_THREE + len(ONE))
    ]
    assert firsts(WHOLE, expected=2) == [2, 4]
    assert firsts(WHOLE, expected=3) == [4]


def test_a_batch_of_another_queue_is_damage() -> None:
    stray = bytes(make(2, b"stray", id_base=ID_BASE + 1).raw)
    assert firsts(ONE + stray + THREE) == [0, 4]
    assert firsts(ONE + stray + THREE, id_base=None) == [0, 2, 4]


def test_a_gap_in_the_offsets_is_none_in_the_bytes() -> None:
    found = scan(ONE + THREE, 0, ID_BASE)
    assert [batch.first_offset for batch in found.batches] == [0, 4]
    assert found.damage == []


def test_a_body_that_holds_a_batch_is_no_batch() -> None:
    body = bytes(make(9, b"inner").raw)
    outer = bytes(make(5, body).raw)
    assert firsts(WHOLE + outer + bytes(make(6, b"x").raw)) == [0, 2, 4, 5, 6]


def test_a_batch_that_the_end_of_the_buffer_cuts_is_not_searched_when_more_follows() -> None:
    inner = bytes(make(9, b"inner").raw)
    outer = bytes(make(5, b"before" + inner + b"behind" * 50).raw)
    for size in range(len(WHOLE) + 1, len(WHOLE) + len(outer)):
        found = scan((WHOLE + outer)[:size], 0, ID_BASE, more=True)
        assert [batch.first_offset for batch in found.batches] == [0, 2, 4]
        assert (found.end, found.torn) == (len(WHOLE), True)
    assert len(scan(WHOLE + outer, 0, ID_BASE, more=True).batches) == 4


def test_a_cut_batch_behind_damage_is_not_searched_either() -> None:
    inner = bytes(make(9, b"inner").raw)
    outer = bytes(make(5, inner + b"behind" * 50).raw)
    data = ONE + b"garbage" + outer
    found = scan(data[:-1], 0, ID_BASE, more=True)
    assert [batch.first_offset for batch in found.batches] == [0]
    assert found.damage == [BadBytes(len(ONE), len(data) - 1)]
    found = scan(data, 0, ID_BASE, more=True)
    assert [batch.first_offset for batch in found.batches] == [0, 5]
    assert found.damage == [BadBytes(len(ONE), len(ONE) + 7)]


def test_a_damaged_message_that_holds_a_batch_does_not_let_it_out() -> None:
    inner = bytes(make(9, b"inner").raw)
    outers = [bytes(make(5, *bodies).raw) for bodies in ([b"in " + inner], [b"mixed", inner])]
    for outer in outers:
        again = bytes(make(7, b"twice" + inner).raw)
        last = bytes(make(8, b"last").raw)
        at = outer.index(inner)
        # All that leaves the header its sense and the inner batch whole.
        for place in (*range(8, 16), *range(32, 48), *range(58, HEADER_BYTES), at - 1):
            spoiled = bytearray(outer)
            spoiled[place] ^= 1
            data = ONE + spoiled + last
            found = scan(data, 0, ID_BASE)
            assert [batch.first_offset for batch in found.batches] == [0, 8]
            assert found.damage == [BadBytes(len(ONE), len(ONE) + len(outer))]
        spoiled = bytearray(ONE + outer + again)
        spoiled[len(ONE) + 8] ^= 1
        spoiled[len(ONE) + len(outer) + 8] ^= 1
        found = scan(spoiled + last, 0, ID_BASE)
        assert [batch.first_offset for batch in found.batches] == [0, 8]
        assert found.damage == [BadBytes(len(ONE), len(spoiled))]
        for tail in (b"", last[:20], last[:-1]):
            found = scan(spoiled + tail, 0, ID_BASE)
            assert [batch.first_offset for batch in found.batches] == [0]
            assert found.damage == [BadBytes(len(ONE), len(spoiled) + len(tail))]
            assert found.torn


def test_a_wrong_length_costs_one_batch_only() -> None:
    """Although it says, now and then, that the batch ends where another one does."""
    mixed = bytes(make(0, b"a", b"bcd").raw)
    for size in range(1, 300):
        second = bytes(make(2, b"x" * size).raw)
        for bit in range(12):
            spoiled = bytearray(mixed + second + THREE)
            spoiled[4 + bit // 8] ^= 1 << bit % 8
            assert firsts(bytes(spoiled)) == [2, 4]


def test_a_wrong_length_that_fits_a_wrong_count_is_not_believed() -> None:
    spoiled = bytearray(ONE + TWO + THREE)
    struct.pack_into("<I", spoiled, 4, len(ONE) + 30)
    struct.pack_into("<I", spoiled, 48, 2 + 10)  # 10 more messages of 3 bytes: into the next batch
    assert firsts(bytes(spoiled)) == [2, 4]


def test_any_buffer_will_do() -> None:
    for data in (WHOLE, bytearray(WHOLE), memoryview(WHOLE)):
        assert len(scan(data, 0, ID_BASE).batches) == 3

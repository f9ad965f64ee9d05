"""Reading batches out of damaged bytes, and the record of a queue's damage."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from penstock.core.errors import DiskFullError
from penstock.storage.batch import HEADER_BYTES, Buffer
from penstock.storage.recovery.damage import DAMAGES_MAX, TORN_COPIES_MAX, Damage, DamageRecord
from penstock.storage.recovery.scan import BadBytes, scan
from penstock.testing.disk import FaultyDisk
from tools.harness.small_logs import ID_BASE, bodies_of, make

ONE = bytes(make(0, b"one", b"two").raw)
TWO = bytes(make(2, b"a", b"longer").raw)
THREE = bytes(make(4, b"z").raw)
AT_TWO = len(ONE)
AT_THREE = len(ONE) + len(TWO)
WHOLE = ONE + TWO + THREE


def firsts(data: bytes, expected: int = 0, id_base: int | None = ID_BASE) -> list[int]:
    return [batch.first_offset for batch in scan(data, expected, id_base).batches]


def test_a_torn_tail() -> None:
    for size in range(AT_THREE + 1, len(WHOLE)):
        found = scan(WHOLE[:size], 0, ID_BASE)
        assert found.positions == [0, AT_TWO]
        assert found.damage == [BadBytes(AT_THREE, size)]
        assert found.end == AT_THREE
        assert found.torn


def flipped(data: bytes, *places: int) -> bytes:
    spoiled = bytearray(data)
    for place in places:
        spoiled[place] ^= 1
    return bytes(spoiled)


@pytest.mark.parametrize(
    ("data", "found", "damage", "is_torn"),
    [
        pytest.param(ONE + b"garbage" + THREE, [0, 4], [(AT_TWO, AT_TWO + 7)], False, id="between"),
        pytest.param(bytes(100) + WHOLE, [0, 2, 4], [(0, 100)], False, id="before the first"),
        pytest.param(b"PSB1" * 100, [], [(0, 400)], True, id="nothing else"),
        pytest.param(flipped(WHOLE, AT_TWO - 1, -1), [2], [(0, AT_TWO), (AT_THREE, len(WHOLE))],
                     True, id="two places"),
        pytest.param(ONE + TWO + ONE + THREE, [0, 2, 4], [(AT_THREE, AT_THREE + len(ONE))],
                     False, id="a stale batch"),
        pytest.param(ONE + THREE, [0, 4], [], False, id="a gap in the offsets is none"),
    ],
)  # fmt: skip
def test_damage_is_stepped_over(
    data: bytes, found: list[int], damage: list[tuple[int, int]], is_torn: bool
) -> None:
    scanned = scan(data, 0, ID_BASE)
    assert [batch.first_offset for batch in scanned.batches] == found
    assert scanned.damage == [BadBytes(*each) for each in damage]
    assert scanned.torn is is_torn


def test_batches_before_the_expected_offset_are_damage() -> None:
    assert firsts(WHOLE, expected=2) == [2, 4]
    assert firsts(WHOLE, expected=3) == [4]


def test_a_batch_of_another_queue_is_damage() -> None:
    stray = bytes(make(2, b"stray", id_base=ID_BASE + 1).raw)
    assert firsts(ONE + stray + THREE) == [0, 4]
    assert firsts(ONE + stray + THREE, id_base=None) == [0, 2, 4]


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


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_undamaged_bytes_in_any_buffer(buffer: Callable[[bytes], Buffer]) -> None:
    found = scan(buffer(WHOLE), 0, ID_BASE)
    assert found.positions == [0, AT_TWO, AT_THREE]
    assert (found.damage, found.end, found.torn) == ([], len(WHOLE), False)
    assert bodies_of(found.batches) == dict(enumerate([b"one", b"two", b"a", b"longer", b"z"]))
    found = scan(buffer(b""))
    assert (found.batches, found.damage, found.end, found.torn) == ([], [], 0, False)


# --- The record of a queue's damage --------------------------------------------------------------


FILE = "/data/damage.json"
BAD = Damage("a.log", "damaged", 10, 5, 20, 23)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def record(disk: FaultyDisk) -> DamageRecord:
    return DamageRecord(disk, "/data")


def test_a_whole_queue_has_no_file(disk: FaultyDisk) -> None:
    damage = record(disk)
    assert (damage.pending, damage.lost_messages) == ([], 0)
    damage.accept(0)
    damage.save()
    assert disk.paths() == []


def test_damage_stays_pending_until_it_is_accepted(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    record(disk).report(BAD, b"bytes")
    assert (
        caplog.text.count("a.log at bytes 10 to 15: damaged; 3 messages are lost, offsets 20 to")
        == 1
    )
    assert disk.content("/data/quarantine/a.log-10.bad") == b"bytes"
    disk.crash("written")
    damage = record(disk)
    assert [str(each) for each in damage.pending] == [
        "a.log at bytes 10 to 15: damaged; 3 messages are lost, offsets 20 to 22; "
        "copied to quarantine/a.log-10.bad"
    ]
    damage.accept(0)
    disk.crash("written")
    damage = record(disk)
    assert (damage.pending, damage.lost_messages) == ([], 3)
    (known,) = damage.known
    assert (known.first, known.next, known.copy) == (20, 23, "a.log-10.bad")


def test_what_is_known_is_not_reported_again(disk: FaultyDisk) -> None:
    damage = record(disk)
    damage.report(BAD)
    damage.report(Damage("log", "gone", first=21, next=23))
    journal = Damage("cursors.journal", "damaged", 7, 3)
    damage.report(journal)
    damage.report(journal)
    assert (len(damage.pending), damage.lost_messages) == (2, 3)
    damage.accept(0)
    damage.report(BAD)
    assert damage.pending == []
    damage.report(Damage("log", "gone", first=22, next=24))
    assert len(damage.pending) == 1


def test_gaps_below_the_start_of_the_log_are_forgotten(disk: FaultyDisk) -> None:
    damage = record(disk)
    damage.report(BAD)
    damage.accept(23)
    assert damage.known == list(damage.lost_ranges()) == []
    assert damage.lost_messages == 3


def test_what_is_no_loss_is_counted_and_not_pending(disk: FaultyDisk) -> None:
    damage = record(disk)
    damage.report(BAD, is_loss=False)
    assert (damage.pending, damage.lost_messages) == ([], 3)
    assert record(disk).known == [BAD]
    assert list(record(disk).lost_ranges()) == [(20, 23)]


def test_what_cannot_be_written_down_is_written_later(disk: FaultyDisk) -> None:
    damage = record(disk)
    disk.fill()
    damage.report(BAD, b"bytes")
    with pytest.raises(DiskFullError):
        damage.accept(0)
    assert len(damage.pending) == 1
    disk.heal()
    damage.save()
    assert record(disk).pending == damage.pending


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pending":[{"file":1}]}'])
def test_a_damaged_record_is_damage(disk: FaultyDisk, content: bytes) -> None:
    disk.replace_file(FILE, content)
    (damage,) = record(disk).pending
    assert damage.file == "damage.json"
    assert record(disk).pending == [damage]


def test_a_torn_tail_may_be_cut_when_it_is_copied(disk: FaultyDisk) -> None:
    damage = record(disk)
    assert damage.keep_torn("a.log", 0, bytes(10))
    assert disk.paths() == []
    assert damage.keep_torn("a.log", 4, b"tail\0\0")
    assert disk.content("/data/quarantine/a.log-4.torn") == b"tail"
    disk.fill()
    assert not damage.keep_torn("a.log", 8, b"tail")
    assert damage.pending == []


def test_the_copies_of_damaged_bytes_are_bounded(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.storage.recovery.damage.DAMAGES_MAX", 3)
    damage = record(disk)
    for number in range(5):
        damage.report(Damage("a.log", "damaged", number, 1), b"x")
    assert len(disk.paths(".bad")) == 3
    assert "quarantine: holds 3 copies already" in caplog.text
    assert damage.pending[1].copy == "a.log-1.bad"
    assert record(disk).pending == damage.pending


def test_damage_of_what_has_no_disk_is_pending_without_a_copy() -> None:
    damage = DamageRecord()
    damage.report(BAD, b"bytes")
    assert damage.pending == [BAD]
    assert not damage.keep_torn("a.log", 0, b"tail")


def test_both_the_list_and_the_copies_are_bounded(disk: FaultyDisk) -> None:
    damage = record(disk)
    for number in range(TORN_COPIES_MAX + 3):
        damage.keep_torn("a.log", number, b"tail")
    assert len(disk.paths(".torn")) == TORN_COPIES_MAX
    disk.fail("replace", times=-1, within="damage.json")  # 1,000 of them take their time
    for number in range(DAMAGES_MAX + 10):
        damage.report(Damage("a.log", "damaged", number, 1, 2 * number, 2 * number + 1))
    assert (len(damage.pending), damage.lost_messages) == (DAMAGES_MAX, DAMAGES_MAX + 10)
    assert damage.pending[-1].next == 2 * (DAMAGES_MAX + 9) + 1

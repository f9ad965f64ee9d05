"""The record of a queue's damage."""

from __future__ import annotations

import pytest

from penstock.core.errors import DiskFullError
from penstock.storage.recovery.damage import DAMAGES_MAX, TORN_COPIES_MAX, Damage, DamageRecord
from penstock.testing.disk import FaultyDisk

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

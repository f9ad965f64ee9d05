"""The journal of small records, and its frames in intact and in damaged bytes."""

from __future__ import annotations

import struct

import pytest
from xxhash import xxh3_64_intdigest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, StorageError
from penstock.storage.extent import NOTHING, Extent
from penstock.storage.journal import COMPACT_BYTES_MIN, Journal
from penstock.storage.journal_frames import (
    HEADER_BYTES,
    encode_frames,
    mark,
    queues_named,
    read_frames,
    whole_bytes,
)
from penstock.storage.recovery.damage import DamageRecord
from penstock.testing.disk import FaultyDisk

OWNER = 77
EXTENT = Extent(3, 5, 9)
FRAMED = [b"first", b"\0" * 30, b"PSJ1", b"last"]
WHOLE = encode_frames(FRAMED, OWNER, EXTENT)
ENDS = [sum(HEADER_BYTES + len(each) for each in FRAMED[:n]) for n in range(len(FRAMED) + 1)]
OLD_RECORDS = [
    b"\x93\xa1t\x07\xc2",
    b"\x99\xa1c\xa1a\x00\x07\x90\x90\xc2\x90\x90",
    b"\x93\xa1g\xa1r\x05",
]


def old_frames(records: list[bytes]) -> bytes:
    return b"".join(struct.pack("<IQ", len(r), xxh3_64_intdigest(r)) + r for r in records)


def test_whole_frames() -> None:
    found = read_frames(WHOLE, OWNER)
    assert (found.records, found.end, found.extent) == (FRAMED, len(WHOLE), EXTENT)
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
    found = read_frames(WHOLE + mark(OWNER, later), OWNER)
    assert (found.records, found.extent) == (FRAMED, later)
    assert found.end == len(WHOLE) + HEADER_BYTES


@pytest.mark.parametrize("byte", range(len(WHOLE)))
def test_a_flipped_bit_costs_one_record_only(byte: int) -> None:
    data = bytearray(WHOLE + mark(OWNER, EXTENT))
    data[byte] ^= 1 << byte % 8
    hit = sum(end <= byte for end in ENDS) - 1
    found = read_frames(bytes(data), OWNER)
    assert found.records == FRAMED[:hit] + FRAMED[hit + 1 :]
    assert (found.damage, found.gaps) == ([(ENDS[hit], ENDS[hit + 1])], {hit})


def test_frames_of_another_queue_are_damage() -> None:
    strange = encode_frames([b"x"], 78, Extent(0, 100, 100))
    found = read_frames(WHOLE + strange, OWNER)
    assert (found.records, found.strangers, found.extent) == (FRAMED, {78}, EXTENT)
    assert found.damage == [(len(WHOLE), len(WHOLE + strange))]
    found = read_frames(strange + WHOLE, OWNER)
    assert (found.records, found.damage, found.gaps) == (FRAMED, [(0, len(strange))], {0})


def test_frames_of_earlier_versions() -> None:
    data = old_frames(OLD_RECORDS)
    found = read_frames(data, OWNER)
    assert (found.records, found.end, found.extent) == (OLD_RECORDS, len(data), NOTHING)
    assert found.is_old


@pytest.mark.parametrize("bit", range(0, 8 * len(old_frames(OLD_RECORDS[:2])), 3))
def test_a_flipped_bit_in_those_costs_one_record_only(bit: int) -> None:
    data = bytearray(old_frames(OLD_RECORDS))
    data[bit // 8] ^= 1 << bit % 8
    hit = int(bit // 8 >= len(old_frames(OLD_RECORDS[:1])))
    found = read_frames(bytes(data), OWNER)
    assert found.records == OLD_RECORDS[:hit] + OLD_RECORDS[hit + 1 :]
    assert found.gaps == {hit}


def test_garbage_holds_nothing() -> None:
    chance = SystemChance(1)
    noise = bytes(chance.below(256) for _ in range(5000))
    for data in (noise, bytes(5000), b"PSJ1" * 1000, b"\x93\xa1t" * 1000):
        found = read_frames(data, OWNER)
        assert (found.records, found.end) == ([], 0)


def test_a_megabyte_of_what_looks_like_frames_is_read_at_once() -> None:
    """A false start whose length exceeds the file costs no checksum."""
    liar = b"PSJ1" + struct.pack("<IQQQQQ", 1 << 30, 0, OWNER, 0, 0, 0)
    found = read_frames(liar * 20_000 + WHOLE, OWNER)
    assert found.records == FRAMED


def test_the_queues_that_frames_name() -> None:
    assert queues_named(b"?" + WHOLE + b"?" + mark(OWNER + 1, NOTHING)) == {OWNER, OWNER + 1}
    assert queues_named(old_frames(OLD_RECORDS)) == set()


# --- The journal of small records ----------------------------------------------------------------


PATH = "/data/cursors.journal"
QUEUE = 7
RECORDS = [b"first", b"\0" * 30, b"last"]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def opened(disk: FaultyDisk, queue: int = QUEUE, *, is_expected: bool = False) -> Journal:
    return Journal(disk, PATH, queue, is_expected=is_expected)


def reopened(disk: FaultyDisk) -> Journal:
    disk.crash("written")
    return opened(disk)


def pending(disk: FaultyDisk) -> list[str]:
    return [str(each) for each in DamageRecord(disk, "/data").pending]


def ends() -> list[int]:
    """The positions at which the mark of a new journal and its records end."""
    sizes = [HEADER_BYTES, *(HEADER_BYTES + len(each) for each in RECORDS)]
    return [sum(sizes[:n]) for n in range(1, len(sizes) + 1)]


def test_what_was_appended_is_found_again(disk: FaultyDisk) -> None:
    journal = opened(disk)
    assert (journal.records, journal.torn_bytes, journal.extent) == ([], 0, NOTHING)
    journal.append(RECORDS[:1])
    journal.append([])
    journal.append(RECORDS[1:], EXTENT)
    journal.close()
    again = opened(disk)
    assert (again.records, again.torn_bytes, again.extent) == (RECORDS, 0, EXTENT)
    assert not again.wants_compaction


def test_every_cut_leaves_the_whole_records_before_it(disk: FaultyDisk) -> None:
    opened(disk).append(RECORDS, EXTENT)
    whole = disk.content(PATH)
    assert ends()[-1] == len(whole)
    for size in range(HEADER_BYTES, len(whole)):
        disk.cut(PATH, 0)
        disk.overwrite(PATH, whole[:size])
        journal = reopened(disk)
        kept = sum(end <= size for end in ends()) - 1
        assert journal.records == RECORDS[:kept]
        assert journal.torn_bytes == size - ends()[kept]
        journal.append([b"next"])
        assert reopened(disk).records == [*RECORDS[:kept], b"next"]
    assert pending(disk) == []


def test_a_torn_tail_is_copied_before_it_is_cut(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    opened(disk).append(RECORDS, EXTENT)
    size = len(disk.content(PATH))
    disk.cut(PATH, size - 2)
    journal = reopened(disk)
    assert (journal.extent, journal.is_whole) == (EXTENT, False)
    assert disk.content(f"/data/quarantine/cursors.journal-{ends()[2]}.torn").endswith(b"la")
    assert "a torn tail of 50 bytes" in caplog.text
    assert len(disk.content(PATH)) == ends()[2]


def test_every_flipped_bit_costs_one_record_at_most(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append(RECORDS, EXTENT)
    journal.sync()
    whole = disk.content(PATH)
    for bit in range(8 * ends()[-1]):
        disk = FaultyDisk("/data")
        disk.replace_file(PATH, whole)
        disk.flip(PATH, bit)
        hit = sum(end <= bit // 8 for end in ends()) - 1
        journal = opened(disk)
        expected = [each for number, each in enumerate(RECORDS) if number != hit]
        assert journal.records == expected
        assert journal.gaps == {max(hit, 0)}
        assert journal.wants_compaction
        start, end = ([0, *ends()][hit + 1], ends()[hit + 1])
        assert pending(disk) == [
            f"cursors.journal at bytes {start} to {end}: damaged; "
            f"copied to quarantine/cursors.journal-{start}.bad"
        ]
        assert disk.content(PATH) != whole
        assert len(disk.content(PATH)) == len(whole), "nothing is cut"


def synced(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append(RECORDS)
    journal.sync()


def test_damage_goes_when_the_journal_is_written_anew(disk: FaultyDisk) -> None:
    synced(disk)
    disk.flip(PATH, 8 * ends()[0])
    journal = reopened(disk)
    journal.replace(journal.records, EXTENT)
    assert not journal.wants_compaction
    again = reopened(disk)
    assert (again.records, again.extent, again.gaps) == (RECORDS[1:], EXTENT, set())
    assert len(pending(disk)) == 1


def test_nothing_is_written_anew_before_the_damage_is_written_down(disk: FaultyDisk) -> None:
    synced(disk)
    disk.flip(PATH, 8 * ends()[0])
    disk.crash("written")
    disk.fail("replace", times=2, within="damage.json")
    journal = opened(disk)
    with pytest.raises(StorageError):
        journal.replace([b"new"])
    journal.replace([b"newer"])
    assert len(pending(disk)) == 1


def test_a_journal_of_another_queue_is_noticed(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append(RECORDS, EXTENT)
    journal.close()
    other = opened(disk, 8)
    assert (other.records, other.extent.end) == ([], 0)
    (damage,) = pending(disk)
    assert "records of another queue" in damage


@pytest.mark.parametrize("content", [None, b"", bytes(100), b"rubbish"])
def test_a_journal_that_should_be_there_is_missed(disk: FaultyDisk, content: bytes | None) -> None:
    if content is not None:
        disk.replace_file(PATH, content)
    journal = opened(disk, is_expected=True)
    assert journal.records == []
    assert len(pending(disk)) == 1
    journal.append([b"new"])
    assert reopened(disk).records == [b"new"]


def test_a_new_one_is_there_at_once(disk: FaultyDisk) -> None:
    opened(disk)
    disk.crash(SystemChance(1))
    opened(disk, is_expected=True)
    assert pending(disk) == []


def test_zeros_behind_the_last_record_are_cut_off(disk: FaultyDisk) -> None:
    opened(disk).append(RECORDS)
    size = len(disk.content(PATH))
    disk.overwrite(PATH, bytes(100), size)
    journal = reopened(disk)
    assert (journal.records, journal.torn_bytes) == (RECORDS, 100)
    assert len(disk.content(PATH)) == size
    assert disk.paths() == [PATH]


# --- of earlier versions -------------------------------------------------------------------------
def test_a_journal_of_an_earlier_version_is_read_and_written_anew(disk: FaultyDisk) -> None:
    disk.replace_file(PATH, old_frames(OLD_RECORDS))
    journal = opened(disk)
    assert (journal.records, journal.extent) == (OLD_RECORDS, NOTHING)
    assert journal.wants_compaction
    assert not journal.is_named
    journal.replace(journal.records, EXTENT)
    assert journal.is_named
    again = reopened(disk)
    assert (again.records, again.extent, again.is_named) == (OLD_RECORDS, EXTENT, True)
    assert pending(disk) == []


def test_an_empty_one_of_an_earlier_version_is_no_damage(disk: FaultyDisk) -> None:
    disk.replace_file(PATH, b"")
    assert opened(disk).is_named
    assert pending(disk) == []


def test_damage_in_one_of_an_earlier_version(disk: FaultyDisk) -> None:
    disk.replace_file(PATH, old_frames(OLD_RECORDS))
    disk.flip(PATH, 8 * 14)
    journal = opened(disk)
    assert (journal.records, journal.gaps) == (OLD_RECORDS[1:], {0})
    assert len(pending(disk)) == 1


# --- failures ------------------------------------------------------------------------------------
def test_a_failed_append_leaves_nothing(disk: FaultyDisk) -> None:
    disk.leaves_partial_writes = True
    journal = opened(disk)
    journal.append([b"one"])
    disk.fill(5)
    with pytest.raises(DiskFullError):
        journal.append([b"two", b"three"])
    disk.heal()
    journal.append([b"four"])
    assert reopened(disk).records == [b"one", b"four"]


def test_replace_keeps_just_what_it_is_given(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append([b"old"] * 10)
    journal.replace([b"a", b"b"])
    journal.append([b"c"])
    assert reopened(disk).records == [b"a", b"b", b"c"]
    assert disk.paths() == [PATH]


def test_a_failed_replace_keeps_the_old_records(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append([b"old"])
    disk.fail("replace")
    with pytest.raises(StorageError):
        journal.replace([b"new"])
    journal.append([b"more"])
    assert reopened(disk).records == [b"old", b"more"]


def test_a_replace_that_failed_half_way_can_be_done_again(disk: FaultyDisk) -> None:
    """As the topic does: after a failed save the next one writes everything anew."""
    journal = opened(disk)
    journal.append([b"old"])
    disk.fail("sync_directory")
    with pytest.raises(StorageError):
        journal.replace([b"new"])
    journal.replace([b"newer"])
    journal.append([b"more"])
    assert reopened(disk).records == [b"newer", b"more"]


def test_when_it_wants_compaction(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append([bytes(COMPACT_BYTES_MIN - 2 * HEADER_BYTES)])
    assert not journal.wants_compaction
    journal.append([b""])
    assert journal.wants_compaction
    journal.replace([b"still counts"])
    assert not journal.wants_compaction
    assert len(disk.content(PATH)) < 200


def test_what_all_counts_is_not_compacted_over_and_over(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.replace([bytes(COMPACT_BYTES_MIN - 2 * HEADER_BYTES)])
    journal.append([bytes(7 * COMPACT_BYTES_MIN - HEADER_BYTES)])
    assert not journal.wants_compaction
    journal.append([b""])
    assert journal.wants_compaction


@pytest.mark.parametrize("seed", range(20))
def test_what_was_synced_survives_a_power_cut(disk: FaultyDisk, seed: int) -> None:
    journal = opened(disk)
    journal.append([b"old"])
    journal.replace([b"kept"])
    journal.append([b"synced"])
    journal.sync()
    unsynced = [b"%d" % n * 40 for n in range(5)]
    journal.append(unsynced)
    disk.crash(SystemChance(seed))
    records = opened(disk).records
    assert records[:2] == [b"kept", b"synced"]
    assert set(records[2:]) <= set(unsynced)


def test_a_sector_that_was_never_synced_is_no_damage(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut may take it and leave the whole records behind it."""
    journal = opened(disk)
    journal.append(RECORDS[:1])
    journal.sync()
    journal.append(RECORDS[1:])
    hole = ends()[1] + HEADER_BYTES  # behind the mark of the sync
    disk.overwrite(PATH, bytes(HEADER_BYTES), hole)
    again = reopened(disk)
    assert (again.records, again.gaps) == ([RECORDS[0], RECORDS[2]], {1})
    assert pending(disk) == []
    assert "damaged or never synced" in caplog.text
    again.append([b"more"])
    again.sync()
    assert reopened(disk).gaps == {1}
    assert pending(disk) == [], "the mark of a later sync does not make it one"


def test_a_note_of_the_extent_is_a_true_mark(disk: FaultyDisk) -> None:
    for seed in range(20):
        disk = FaultyDisk("/data")
        journal = opened(disk)
        journal.append([bytes(600)])
        disk.fail("sync", nth=2)
        with pytest.raises(StorageError):
            journal.note(EXTENT)
        disk.crash(SystemChance(seed))
        assert opened(disk).gaps == set()
        assert pending(disk) == []


def test_a_sync_marks_how_far_it_went_once(disk: FaultyDisk) -> None:
    """Thus damage to the last synced record is never taken for a torn tail."""
    journal = opened(disk)
    journal.append([b"one"], EXTENT)
    journal.sync()
    size = len(disk.content(PATH))
    journal.sync()
    assert len(disk.content(PATH)) == size
    disk.flip(PATH, 8 * (size - HEADER_BYTES - 1))
    reopened(disk)
    assert len(pending(disk)) == 1


def test_a_full_disk_has_room_for_no_mark(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append([b"one"])
    disk.fill()
    journal.sync()
    assert reopened(disk).records == [b"one"]


def test_a_closed_journal_takes_nothing(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.close()
    with pytest.raises(StorageError):
        journal.append([b"late"])


def test_frames_from_a_position_on_are_those_written_since(disk: FaultyDisk) -> None:
    journal = opened(disk)
    journal.append([b"first"], EXTENT)
    position = journal.size
    journal.append([b"second"], EXTENT)
    assert read_frames(journal.frames_from(position, 1000), QUEUE).records == [b"second"]
    assert read_frames(journal.frames_from(0, 1000), QUEUE).records == [b"first", b"second"]
    assert journal.rewrites == 0
    journal.replace([b"only"], EXTENT)
    assert journal.rewrites == 1
    assert read_frames(journal.frames_from(0, 1000), QUEUE).records == [b"only"]


def test_frames_come_in_pieces_of_about_the_size_that_is_asked_for(disk: FaultyDisk) -> None:
    journal = opened(disk)
    records = [b"1" * 60, b"2" * 60, b"3" * 500, b"4" * 60]
    journal.append(records, EXTENT)
    position, pieces = 0, []
    while data := journal.frames_from(position, 300):
        found = read_frames(data, QUEUE)
        assert found.end == len(data)
        pieces.append([each[:1] for each in found.records])
        position += len(data)
    assert pieces == [[b"1", b"2"], [b"3"], [b"4"]]
    assert position == journal.size
    assert journal.frames_from(5, 100) == b""  # no frame begins there

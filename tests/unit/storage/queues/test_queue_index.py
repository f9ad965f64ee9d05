"""Which messages are in which queue, and that files and log agree about it after any end."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest

from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.storage.batch import Batch
from penstock.storage.files.disk import OsDisk
from penstock.storage.queues.one_queue import OneQueue
from penstock.storage.queues.queue_chunks import (
    ReadChunks,
    encode_chunk,
    encode_mark,
    read_chunks,
)
from penstock.storage.queues.queue_index import QueueIndex, open_queues
from penstock.storage.retention import Retention
from tests.unit.storage.logs import DIRECTORY, fill, new_disk, new_log

from .indexes import (
    content,
    files_of,
    index_of,
    indexed,
    let_go,
    open_at,
    places,
    put,
    put_stated,
    reopened,
    stated,
    stop,
)


def test_a_topic_that_gets_more_queues_keeps_the_offsets_of_its_first(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    log.append([Batch.build(0, 0, 1, 3, 1, [b"abc"])])
    index = open_queues(OsDisk(), str(tmp_path), log, several=True)
    assert isinstance(index, QueueIndex)
    assert put(log, index, 1, 2) == 0
    assert put(log, index, 0, 1) == 3
    index.close()
    again = open_queues(OsDisk(), str(tmp_path), log)
    assert isinstance(again, QueueIndex)
    assert content(again, 2) == {0: [0, 1, 2, 5], 1: [3, 4]}


@pytest.mark.usefixtures("small")
def test_half_of_a_file_that_a_kill_has_left_is_no_damage(tmp_path: Path) -> None:
    log, index = indexed(tmp_path)
    for number in range(40):
        put(log, index, number % 2, 1)
    before = content(index, 2)
    index.close()
    first, *others = files_of(tmp_path)
    assert others
    half = first.with_name(first.name + ".0123abcd.tmp")
    half.write_bytes(first.read_bytes()[:-20])
    index = index_of(tmp_path, log)
    assert (content(index, 2), log.damage.pending, log.damage.known) == (before, [], [])
    assert not half.exists()
    index.close()


@pytest.mark.usefixtures("small")
def test_any_place_is_found_whatever_was_asked_before(tmp_path: Path) -> None:
    log, index = indexed(tmp_path)
    for number in range(30):
        put(log, index, number % 2, 1 + number % 3)
    whole = content(index, 2)
    for queue in (0, 1):
        high = index.bounds(queue)[1]
        for offset in (*range(high - 1, -1, -1), *range(0, high, 7)):
            assert index.locate(queue, offset, 1) == array("q", [whole[queue][offset]])
    index.close()


def test_what_is_no_queue_or_no_offset_is_not_found(tmp_path: Path) -> None:
    log, index = indexed(tmp_path)
    put(log, index, 1, 3)
    found = [list(index.locate(*place, 9)) for place in ((1, 0), (1, -1), (0, 0))]
    assert found == [[0, 1, 2], [], []]
    assert (index.bounds(0), index.search(0, 2)) == ((0, 0), 0)
    assert (index.end(0), index.end(1)) == (0, 3)


@pytest.mark.usefixtures("small")
def test_a_kill_leaves_a_queue_its_offset_whose_older_messages_are_all_gone(
    tmp_path: Path,
) -> None:
    """Its newest message is in memory only, and its last chunk in a file that nobody else needs."""
    log = open_at(tmp_path, max_bytes_per_file=600)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log, stated)
    put_stated(log, index, 1, 3)
    for _ in range(50):
        put_stated(log, index, 0, 1)
    put_stated(log, index, 1, 1)
    for _ in range(9):
        put_stated(log, index, 0, 1)
    for _ in range(2):
        let_go(log, index, 53)
    assert 3 < log.start_offset <= 53
    again = QueueIndex(OsDisk(), str(tmp_path / "queues"), reopened(tmp_path)[0], stated)
    assert again.bounds(1) == (3, 4)
    assert list(again.locate(1, 3, 1)) == [53]


@pytest.mark.usefixtures("small")
def test_what_is_in_chunks_already_is_not_written_again(tmp_path: Path) -> None:
    log, index = indexed(tmp_path)
    put(log, index, 0, 4)
    index.flush()
    put(log, index, 1, 2)
    (before,) = [file.read_bytes() for file in files_of(tmp_path)]
    index.secure(4)
    mark = encode_mark(4, log.id_base)
    assert [file.read_bytes() for file in files_of(tmp_path)] == [before + mark]
    index.secure(5)
    assert [file.read_bytes() for file in files_of(tmp_path)] != [before + mark]


def test_an_index_that_cannot_be_written_stays_in_memory_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    log = new_log(disk)
    index = QueueIndex(disk, f"{DIRECTORY}/queues", log)
    for turn in range(1, 3):
        put(log, index, 1, 2)
        disk.fill()
        index.flush()
        index.flush()
        assert caplog.text.count("cannot write the index of queues") == turn
        first = 2 * turn - 2
        assert list(index.locate(1, first, 99)) == [first, first + 1]
        disk.heal()
        index.flush()
        assert sum(len(disk.content(path)) for path in disk.paths(".chunks")) == turn * (40 + 16)


def test_an_index_that_cannot_be_synced_is_closed_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    log = new_log(disk)
    index = QueueIndex(disk, f"{DIRECTORY}/queues", log)
    put(log, index, 0, 4)
    disk.fail("sync", times=-1)
    index.close()
    assert "cannot sync the index of queues" in caplog.text
    disk.heal()
    assert list(QueueIndex(disk, f"{DIRECTORY}/queues", log).locate(0, 0, 9)) == [0, 1, 2, 3]


def test_what_is_secure_already_is_not_synced_again() -> None:
    """Retention asks before each segment that it deletes, of thousands of topics."""
    disk = new_disk()
    log = new_log(disk)
    index = QueueIndex(disk, f"{DIRECTORY}/queues", log)
    put(log, index, 0, 4)
    index.secure(4)
    assert disk.sync_count > 0
    disk.fail("sync", times=-1)
    disk.fail("sync_directory", times=-1)
    index.secure(4)
    put(log, index, 0, 1)
    with pytest.raises(StorageError):
        index.secure(5)


@pytest.mark.usefixtures("small")
def test_messages_that_a_power_cut_took_are_not_missed_where_a_chunk_is_damaged(
    tmp_path: Path,
) -> None:
    """Their offsets are given to no others, so no chunk will ever have them."""
    log, index = indexed(tmp_path)
    for number in range(20):
        if number == 10:
            log.sync()
            log.skip_to(15)
        put(log, index, number % 2, 1)
    stop(index, log)
    file = files_of(tmp_path)[0]
    file.write_bytes(file.read_bytes()[40 + 5 * 8 :])
    log, index = indexed(tmp_path)
    assert (index.bounds(0), index.bounds(1)) == ((0, 10), (0, 10))
    assert [damage.what for damage in log.damage.pending] == ["chunks are missing"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("firsts", [None, {0: 30, 1: 7, 2: 3}])
def test_an_index_that_begins_behind_messages_that_are_gone_keeps_its_file(
    tmp_path: Path, firsts: dict[int, int] | None
) -> None:
    log = open_at(tmp_path, max_bytes_per_file=600)
    for offset in range(40):
        log.append([Batch.build(offset, offset, 1, 1, 8, [b"%08d" % offset])])
    log.trim(40, 10**18, Retention())
    index = open_queues(OsDisk(), str(tmp_path), log, several=True, stated=stated, firsts=firsts)
    assert isinstance(index, QueueIndex)
    for _ in range(10):
        put_stated(log, index, 0, 1)
    for _ in range(2):
        let_go(log, index, log.next_offset - 5)
    before = places(log, index)
    assert len(before[0]) > 5
    log, index = reopened(tmp_path)
    assert places(log, index) == before
    assert not log.damage.pending


@pytest.mark.parametrize("seed", range(6))
def test_where_an_index_begins_outlives_a_power_cut(seed: int) -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=300)
    fill(log, *[1] * 20)
    log.sync()
    log.trim(20, 10**18, Retention())
    disk.sync_directory(DIRECTORY)
    start = log.start_offset
    QueueIndex(disk, f"{DIRECTORY}/queues", log, firsts={0: 30, 1: 7})
    disk.crash(SystemChance(seed))
    log = new_log(disk, max_bytes_per_file=300)
    index = QueueIndex(disk, f"{DIRECTORY}/queues", log)
    assert index.bounds(0) == (30, 30 + 20 - start)
    assert index.bounds(1) == (7, 7)
    assert not log.damage.pending


# --- A topic with one queue: its offsets are those of the log ------------------------------------


def test_one_queue_is_the_log_itself(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    one = open_queues(OsDisk(), str(tmp_path), log)
    assert isinstance(one, OneQueue)
    assert one.firsts is None
    log.append([Batch.build(0, 0, 1, 3, 1, [b"abc"])])
    assert one.bounds(0) == (0, 3)
    assert one.bounds(1) == (0, 0)
    assert (one.end(0), one.end(1)) == (3, 0)
    assert list(one.locate(0, 1, 9)) == [1, 2]
    assert list(one.locate(1, 0, 9)) == []
    assert [one.search(0, n) for n in (0, 2, 9)] == [0, 2, 3]


# --- Chunks are recognised wherever they stand, and nothing else is ------------------------------


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


def test_reading_goes_on_behind_cut_and_damaged_chunks(tmp_path: Path) -> None:
    spoilt = b"".join(chunk[:-1] + b"!" for chunk in (FIRST, SECOND))
    for bad in (*(FIRST[:cut] for cut in range(1, len(FIRST))), spoilt):
        found = read(tmp_path, bad + SECOND)
        assert [chunk.queue for chunk in found.chunks] == [1]
        assert found.bad == [(0, len(bad), "damaged")]


def test_a_chunk_or_a_mark_of_another_log_is_a_stranger(tmp_path: Path) -> None:
    strange = encode_chunk(0, 3, 50, array("q", [20]), 6000)
    found = read(tmp_path, FIRST + strange)
    assert found.bad == [(len(FIRST), len(FIRST + strange), "of another queue")]
    assert (len(found.chunks), found.covered) == (1, 3)
    found = read(tmp_path, FIRST + encode_mark(9, 6000))
    assert (found.safe, [what for _, _, what in found.bad]) == (None, ["of another queue"])


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

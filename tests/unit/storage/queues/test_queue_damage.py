"""An index of queues after damage and power cuts: no queue offset of a later message changes."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues import queue_rebuild
from penstock.storage.queues.one_queue import OneQueue
from penstock.storage.queues.queue_chunks import HEADER_BYTES, Chunk, encode_chunk
from penstock.storage.queues.queue_index import QueueIndex, open_queues
from penstock.storage.queues.queue_rebuild import Rebuild, batches_of, count_between, missing
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk, Operation
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

Damaging = Callable[[Path], None]


def grown(path: Path) -> dict[int, dict[int, int]]:
    """A stopped topic of three queues whose log has let go of its first messages: of each queue,
    the queue offsets by log offset, and the next one under -1.
    """
    log, index = indexed(path, max_bytes_per_file=600)
    for number in range(60):
        put_stated(log, index, (0, 1, 0, 2)[number % 4], 1 + number % 3)
        if number == 40:
            let_go(log, index, 50)
    assert log.start_offset > 30
    found = places(log, index)
    stop(index, log)
    return found


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def flip_every_first_chunk(path: Path) -> None:
    for file in files_of(path):
        flip(file, 20)


def flip_all(path: Path) -> None:
    for file in files_of(path):
        file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))


def delete_all(path: Path) -> None:
    for file in files_of(path):
        file.unlink()


def delete_the_folder(path: Path) -> None:
    delete_all(path)
    (path / "queues").rmdir()


def swap_two_files(path: Path) -> None:
    first, *_, last = files_of(path)
    data = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(data)


def swap_two_chunks(path: Path) -> None:
    file = files_of(path)[0]
    data = file.read_bytes()
    border = data.index(b"PSQ1", 4)
    end = data.find(b"PSQ1", border + 4) % (len(data) + 1)
    file.write_bytes(data[border:end] + data[:border] + data[end:])


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


OF_FIRST: dict[str, Damaging] = {
    "flip first": lambda path: flip(files_of(path)[0], 60),
    "truncate first": lambda path: cut(files_of(path)[0], 70),
    "empty first": lambda path: cut(files_of(path)[0], 0),
    "delete first": lambda path: files_of(path)[0].unlink(),
}
HARMFUL: dict[str, Damaging] = {
    **OF_FIRST,
    "flip every first chunk": flip_every_first_chunk,
    "flip all": flip_all,
}
ANY: dict[str, Damaging] = {
    **HARMFUL,
    "delete last": lambda path: files_of(path)[-1].unlink(),
    "truncate last": lambda path: cut(files_of(path)[-1], -30),
    "swap two files": swap_two_files,
    "swap two chunks": swap_two_chunks,
}
ALL: dict[str, Damaging] = {**ANY, "delete all": delete_all, "delete the folder": delete_the_folder}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ANY)
def test_damage_changes_no_queue_offset_of_a_later_message(tmp_path: Path, damage: str) -> None:
    before = grown(tmp_path)
    ANY[damage](tmp_path)
    for _ in range(3):  # what was made again stays
        log, index = reopened(tmp_path)
        assert places(log, index) == before
        if damage == "swap two chunks":
            assert not log.damage.pending, "chunks in another order are no damage"
        stop(index, log)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ALL)
def test_damage_never_lowers_what_the_next_message_gets(tmp_path: Path, damage: str) -> None:
    before = grown(tmp_path)
    ALL[damage](tmp_path)
    log = open_at(tmp_path, max_bytes_per_file=600)
    index = open_queues(OsDisk(), str(tmp_path), log, several=True, stated=stated)
    assert isinstance(index, QueueIndex)
    for queue in range(3):
        index.at_least(queue, before[queue][-1])
        put_stated(log, index, queue, 2)
        assert index.bounds(queue)[1] >= before[queue][-1] + 2
    after = places(log, index)
    stop(index, log)
    log, index = reopened(tmp_path)
    assert places(log, index) == after


@pytest.mark.usefixtures("small")
def test_where_nothing_else_tells_queues_go_on_where_their_consumers_are(tmp_path: Path) -> None:
    before = grown(tmp_path)
    delete_all(tmp_path)
    log, index = reopened(tmp_path, states=False)
    assert any("queue 0 has had; it goes on at offset 0" in str(d) for d in log.damage.pending)
    for queue in range(3):
        index.at_least(queue, before[queue][-1])
    assert places(log, index) == before
    assert str(log.damage.pending[-1]).endswith(
        f"queue 2 has had; by what consumers have committed it goes on at offset {before[2][-1]}"
    )
    stop(index, log)
    log, index = reopened(tmp_path, states=False)
    assert places(log, index) == before


@pytest.mark.usefixtures("small")
def test_a_queue_of_which_nothing_is_left_goes_on_where_its_consumers_are(tmp_path: Path) -> None:
    log, index = indexed(tmp_path, max_bytes_per_file=400)
    put(log, index, 1, 3)
    for _ in range(50):
        put(log, index, 0, 1)
    let_go(log, index, 50)
    index.close()
    delete_all(tmp_path)
    index = index_of(tmp_path, log)
    assert index.bounds(1) == (0, 0)
    for offset in (3, 2):
        index.at_least(1, offset)
        assert index.bounds(1) == (3, 3)
    assert put(log, index, 1, 1) == 3
    assert list(index.locate(1, 3, 1)) == [53]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ["", "flip first"])
def test_consumers_move_no_queue_whose_place_is_known(tmp_path: Path, damage: str) -> None:
    before = grown(tmp_path)
    if damage:
        ANY[damage](tmp_path)
    log, index = reopened(tmp_path)
    assert bool(log.damage.pending) is bool(damage)
    for _ in range(2):
        for queue in range(3):
            index.at_least(queue, before[queue][-1] + 100)
        assert places(log, index) == before
        put_stated(log, index, 0, 1)
        before = places(log, index)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", OF_FIRST)
def test_the_next_whole_chunk_tells_where_messages_are_that_state_nothing(
    tmp_path: Path, damage: str
) -> None:
    before = grown(tmp_path)
    OF_FIRST[damage](tmp_path)
    log, index = reopened(tmp_path, states=False)
    assert places(log, index) == before
    stop(index, log)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", HARMFUL)
def test_damage_is_pending_until_an_operator_accepts_it(tmp_path: Path, damage: str) -> None:
    grown(tmp_path)
    HARMFUL[damage](tmp_path)
    stop(*reopened(tmp_path)[::-1])
    log, index = reopened(tmp_path)
    assert log.damage.pending
    assert log.damage.lost_messages == 0, "the log has them all"
    log.damage.accept(log.start_offset)
    stop(index, log)
    log, index = reopened(tmp_path)
    assert not log.damage.pending


@pytest.mark.usefixtures("small")
def test_damaged_bytes_are_copied_before_they_go(tmp_path: Path) -> None:
    grown(tmp_path)
    first = files_of(tmp_path)[0]
    flip(first, 60)
    data = first.read_bytes()
    log, index = reopened(tmp_path)
    (damage,) = log.damage.pending
    assert (damage.file, damage.what, damage.position) == (first.name, "damaged", 0)
    copy = (tmp_path / "quarantine" / damage.copy).read_bytes()
    assert copy == data[: damage.nbytes]
    index.close()


@pytest.mark.usefixtures("small")
def test_a_chunk_that_contradicts_those_before_it_is_not_believed(tmp_path: Path) -> None:
    before = grown(tmp_path)
    known = array("q", sorted(before[0])[10:15])
    last = files_of(tmp_path)[-1]
    other = last.with_name(f"{int(last.stem) + 1:010d}.chunks")
    other.write_bytes(encode_chunk(0, 0, 0, known, 0))
    log, index = reopened(tmp_path)
    assert places(log, index) == before
    assert not log.damage.pending


@pytest.mark.usefixtures("small")
def test_chunks_of_another_topic_are_not_believed(tmp_path: Path) -> None:
    before = grown(tmp_path / "ours")
    other = open_log(
        OsDisk(), str(tmp_path / "other"), 1 << 40, BlockCache(), LogOptions()
    )[0]  # fmt: skip
    theirs = QueueIndex(OsDisk(), str(tmp_path / "other" / "queues"), other)
    for _ in range(20):
        put_stated(other, theirs, 0, 3)
    theirs.close()
    mine = files_of(tmp_path / "ours")[0]
    mine.write_bytes(files_of(tmp_path / "other")[0].read_bytes())
    log, index = reopened(tmp_path / "ours")
    assert places(log, index) == before
    assert {each.what for each in log.damage.pending} >= {"of another queue"}


def test_a_topic_gets_more_queues_after_its_log_has_let_go_of_messages(tmp_path: Path) -> None:
    log = open_at(tmp_path, max_bytes_per_file=200)
    for number in range(8):
        log.append([Batch.build(number, number, 1, 1, 4, [b"body"])])
    log.trim(6, 10**18, Retention())
    assert log.start_offset
    before = OneQueue(log).bounds(0)
    index = open_queues(OsDisk(), str(tmp_path), log, several=True)
    assert index.bounds(0) == before
    assert list(index.locate(0, 7, 1)) == [7]
    index.close()
    assert open_queues(OsDisk(), str(tmp_path), log).bounds(0) == before


@pytest.mark.usefixtures("small")
def test_readers_step_over_what_neither_chunks_nor_log_have(tmp_path: Path) -> None:
    log, index = indexed(tmp_path, max_bytes_per_file=600)
    for number in range(40):
        put_stated(log, index, number % 2, 1)
    before = places(log, index)
    stop(index, log)
    for file in tmp_path.glob("*.index"):
        file.unlink()
    segment = sorted(tmp_path.glob("*.log"))[1]
    lost = int(segment.stem)
    segment.unlink()
    flip_every_first_chunk(tmp_path)
    log, index = reopened(tmp_path)
    for queue in (0, 1):
        assert index.bounds(queue) == (0, before[queue][-1])
        for place, offset in before[queue].items():
            if place < 0:
                continue
            (found,) = index.locate(queue, offset, 1)
            batch = log.batch_at(found)
            if log.batch_at(place) is None:
                assert batch is None
                assert place >= lost
            else:
                assert found == place


def test_a_queue_goes_on_behind_messages_that_are_lost(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    index = open_queues(OsDisk(), str(tmp_path), log, several=True)
    assert isinstance(index, QueueIndex)
    put(log, index, 1, 2)
    log.sync()
    log.skip_to(6, "lost there")
    index.pass_over(1, 5, 5)
    index.pass_over(1, 4, 5)
    assert put(log, index, 1, 1) == 5
    index.pass_over(2, 1, 5)
    assert put(log, index, 2, 1) == 1
    assert content(index, 3) == {0: [], 1: [0, 1, 5, 5, 5, 6], 2: [5, 7]}
    one = OneQueue(log)
    one.pass_over(0, 9, 1)
    assert one.bounds(0) == (0, 8)
    index.close()
    again = open_queues(OsDisk(), str(tmp_path), log)
    assert isinstance(again, QueueIndex)
    assert content(again, 3) == {0: [], 1: [0, 1, 5, 5, 5, 6], 2: [5, 7]}


def test_a_new_index_begins_where_somebody_else_knows(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    index = open_queues(OsDisk(), str(tmp_path), log, several=True, firsts={0: 3, 2: 0})
    assert [index.bounds(queue) for queue in (0, 2)] == [(0, 0), (0, 0)]
    assert index.firsts == {}
    index.close()


# --- What disks refuse and lose ------------------------------------------------------------------


QUEUES = f"{DIRECTORY}/queues"


def opened(disk: FaultyDisk) -> tuple[Log, QueueIndex]:
    log = new_log(disk, max_bytes_per_file=600)
    return log, QueueIndex(disk, QUEUES, log, stated)


def from_offset(start: int, found: dict[int, dict[int, int]]) -> dict[int, dict[int, int]]:
    """What there is from a start of the log on: a power cut may bring back what it let go."""
    return {
        queue: {place: offset for place, offset in offsets.items() if place < 0 or place >= start}
        for queue, offsets in found.items()
    }


def let_go_on_a_bad_disk(log: Log, index: QueueIndex, before: int) -> None:
    """Delete segments as a topic does: the disk needs the room whatever becomes of the index."""

    def secure(start: int) -> None:
        with suppress(StorageError):
            index.secure(start)

    log.trim(before, 10**18, Retention(), about_to=secure)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(4))
def test_a_sync_that_failed_is_tried_again_with_what_it_lost(seed: int) -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(60):
        put_stated(log, index, number % 3, 2)
    log.sync()
    before = places(log, index)
    disk.fail("sync", within=".chunks")
    let_go_on_a_bad_disk(log, index, 100)
    index.trim()
    disk.crash(SystemChance(seed))
    log, index = opened(disk)
    assert not log.damage.pending
    assert from_offset(100, places(log, index)) == from_offset(100, before)


def test_an_index_that_a_full_disk_kept_from_being_written_is_written_once_there_is_room() -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(60):
        put_stated(log, index, number % 3, 1)
    log.sync()
    disk.fill()
    let_go_on_a_bad_disk(log, index, 60)
    disk.heal()
    index.trim()
    before = places(log, index)
    disk.crash("written")
    log, index = opened(disk)
    assert not log.damage.pending
    assert places(log, index) == before


@pytest.mark.parametrize("operation", ["make_directory", "replace", "rename"])
def test_an_index_that_cannot_begin_leaves_nothing(operation: Operation) -> None:
    disk = new_disk()
    log = new_log(disk, max_bytes_per_file=300)
    fill(log, *[1] * 20)
    log.sync()
    log.trim(20, 10**18, Retention())
    before = open_queues(disk, DIRECTORY, log).bounds(0)
    disk.fail(operation, within="queues")
    with pytest.raises(StorageError):
        open_queues(disk, DIRECTORY, log, several=True)
    assert isinstance(open_queues(disk, DIRECTORY, log), OneQueue)
    index = open_queues(disk, DIRECTORY, log, several=True)
    assert index.bounds(0) == before
    assert not log.damage.pending


Harm = Callable[[FaultyDisk, str], None]
HARM: dict[str, Harm] = {
    "flip": lambda disk, path: disk.flip(path, 8 * 20),
    "cut": lambda disk, path: disk.cut(path, len(disk.content(path)) // 2),
    "lose": FaultyDisk.remove,
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("seed", range(4))
def test_damage_to_what_was_synced_is_told_even_after_a_power_cut(seed: int, harm: str) -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(60):
        put_stated(log, index, number % 3, 2)
        if number in (30, 50):  # the second syncs the first one's mark
            index.secure(log.next_offset)
    log.sync()
    disk.crash(SystemChance(seed))
    chunks = disk.paths(".chunks")
    assert len(chunks) > 2
    HARM[harm](disk, chunks[1])
    log, index = opened(disk)
    assert log.damage.pending
    assert [index.bounds(queue)[1] for queue in range(3)] == [40, 40, 40]


@pytest.mark.usefixtures("small")
def test_a_file_that_cannot_be_removed_is_removed_later() -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(60):
        put_stated(log, index, number % 3, 2)
    log.sync()
    before = len(disk.paths(".chunks"))
    disk.fail("remove", within=".chunks")
    with pytest.raises(StorageError):
        let_go(log, index, 100)
    assert len(disk.paths(".chunks")) == before
    index.trim()
    assert len(disk.paths(".chunks")) < before
    index.close()


# --- Messages that no chunk has get their places again, or are said to be guessed ----------------


QUEUES_OF = (0, 1, 0, 0, 1, 0, 1, 0)
"""Of the messages of the log, by their offsets."""


def chunk_of(path: Path, queue: int, first: int, *offsets: int) -> Chunk:
    data = array("q", offsets)
    file = OsDisk().open(str(path / f"{queue}-{first}"))
    file.append(encode_chunk(queue, first, 0, data, 1))
    return Chunk(queue, first, len(data), data[0], data[-1], file, HEADER_BYTES)


def filled() -> MemoryLog:
    log = MemoryLog(1000)
    for offset, queue in enumerate(QUEUES_OF):
        log.append([Batch.build(offset, 1000 + offset, 1, 1, 1, [b"."], queue=queue)])
    return log


def rebuilt(
    path: Path, chunks: dict[int, list[Chunk]], *, lost: int = 0, stated: int | None = None
) -> Rebuild:
    """After a walk over all, where what is below ``lost`` is not known."""
    gone = RangeSet()
    gone.add(0, lost)
    rebuild = Rebuild(filled(), chunks, gone, lambda _batch: stated,
                      lambda queue, first, offsets: chunk_of(path, queue, first, *offsets),
                      4096)  # fmt: skip
    rebuild.walk(lost, len(QUEUES_OF))
    return rebuild


def test_everything_is_missing_without_chunks(tmp_path: Path) -> None:
    rebuild = rebuilt(tmp_path, {})
    assert {q: (run.first, list(run.offsets)) for q, run in rebuild.tails.items()} == {
        0: (0, [0, 2, 3, 5, 7]), 1: (0, [1, 4, 6]),
    }  # fmt: skip
    assert (rebuild.found, rebuild.guessed) == (8, set())


def test_a_whole_chunk_tells_what_is_before_it(tmp_path: Path) -> None:
    chunks = {0: [chunk_of(tmp_path, 0, 90, 5, 7)]}
    rebuild = rebuilt(tmp_path, chunks, lost=2)
    assert [(c.first_offset, list(c.log_offsets())) for c in chunks[0]] == [
        (88, [2, 3]), (90, [5, 7]),
    ]  # fmt: skip
    assert rebuild.guessed == {1}


def test_a_message_tells_where_it_is(tmp_path: Path) -> None:
    rebuild = rebuilt(tmp_path, {}, lost=2, stated=70)
    assert rebuild.tails[0].first == 70
    assert rebuild.guessed == set()


def test_nothing_goes_below_the_chunk_before(tmp_path: Path) -> None:
    chunks = {0: [chunk_of(tmp_path, 0, 30, 0)]}
    rebuild = rebuilt(tmp_path, chunks, lost=2, stated=3)
    assert rebuild.tails[0].first == 31


def test_missing_offsets_are_found_across_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_rebuild, "WINDOW_OFFSETS", 4)
    chunks = [[chunk_of(tmp_path, 0, 0, 1, 2, 6)], [chunk_of(tmp_path, 1, 0, 3)]]
    assert list(missing(chunks, 0, 9)) == [(0, 1), (4, 6), (7, 8), (8, 9)]
    assert [count_between(chunks, *span) for span in ((0, 9), (2, 6), (3, 4))] == [4, 2, 1]


def test_all_batches_of_a_log_are_given() -> None:
    assert [batch.queue for batch in batches_of(filled())] == list(QUEUES_OF)


def test_the_batches_of_a_log_end_where_its_end_is_lost() -> None:
    """A power cut took messages that consumers have had: the log goes on behind their offsets."""
    log = new_log(new_disk(), mem_queue_size=0)
    fill(log, 1, 1)
    log.skip_to(5)
    assert log.next_offset == 5
    assert [batch.first_offset for batch in batches_of(log)] == [0, 1]

"""An index of queues whose files are damaged: no queue offset of a later message changes."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.queues.one_queue import OneQueue
from penstock.storage.queues.queue_chunks import encode_chunk
from penstock.storage.queues.queue_index import QueueIndex, open_queues
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention

from .indexes import content, files_of, let_go, open_at, places, put, put_stated, reopened, stated

Damaging = Callable[[Path], None]


def grown(path: Path) -> dict[int, dict[int, int]]:
    """A stopped topic of three queues whose log has let go of its first messages: of each queue,
    the queue offsets by log offset, and the next one under -1.
    """
    log = open_at(path, max_bytes_per_file=600)
    index = QueueIndex(OsDisk(), str(path / "queues"), log)
    for number in range(60):
        put_stated(log, index, (0, 1, 0, 2)[number % 4], 1 + number % 3)
        if number == 40:
            let_go(log, index, 50)
    assert log.start_offset > 30
    found = places(log, index)
    index.close()
    log.close()
    return found


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def flip_first(path: Path) -> None:
    flip(files_of(path)[0], 60)


def flip_every_first_chunk(path: Path) -> None:
    for file in files_of(path):
        flip(file, 20)


def flip_all(path: Path) -> None:
    for file in files_of(path):
        file.write_bytes(bytes(byte ^ 0xFF for byte in file.read_bytes()))


def truncate_first(path: Path) -> None:
    file = files_of(path)[0]
    file.write_bytes(file.read_bytes()[:70])


def truncate_last(path: Path) -> None:
    file = files_of(path)[-1]
    file.write_bytes(file.read_bytes()[:-30])


def empty_first(path: Path) -> None:
    files_of(path)[0].write_bytes(b"")


def delete_first(path: Path) -> None:
    files_of(path)[0].unlink()


def delete_last(path: Path) -> None:
    files_of(path)[-1].unlink()


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


HARMFUL = [
    flip_first, flip_every_first_chunk, flip_all, truncate_first, empty_first, delete_first,
]  # fmt: skip
ANY = [*HARMFUL, delete_last, truncate_last, swap_two_files, swap_two_chunks]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ANY)
def test_damage_changes_no_queue_offset_of_a_later_message(
    tmp_path: Path, damage: Damaging
) -> None:
    before = grown(tmp_path)
    damage(tmp_path)
    for _ in range(3):  # what was made again stays
        log, index = reopened(tmp_path)
        assert places(log, index) == before
        index.close()
        log.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [*ANY, delete_all, delete_the_folder])
def test_damage_never_lowers_what_the_next_message_gets(tmp_path: Path, damage: Damaging) -> None:
    before = grown(tmp_path)
    damage(tmp_path)
    log = open_at(tmp_path, max_bytes_per_file=600)
    index = open_queues(OsDisk(), str(tmp_path), log, several=True, stated=stated)
    assert isinstance(index, QueueIndex)
    for queue in range(3):
        index.at_least(queue, before[queue][-1])
        put_stated(log, index, queue, 2)
        assert index.bounds(queue)[1] >= before[queue][-1] + 2
    after = places(log, index)
    index.close()
    log.close()
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
    index.close()
    log.close()
    log, index = reopened(tmp_path, states=False)
    assert places(log, index) == before


@pytest.mark.usefixtures("small")
def test_a_queue_of_which_nothing_is_left_goes_on_where_its_consumers_are(tmp_path: Path) -> None:
    log = open_at(tmp_path, max_bytes_per_file=400)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    put(log, index, 1, 3)
    for _ in range(50):
        put(log, index, 0, 1)
    let_go(log, index, 50)
    index.close()
    delete_all(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    assert index.bounds(1) == (0, 0)
    for offset in (3, 2):
        index.at_least(1, offset)
        assert index.bounds(1) == (3, 3)
    assert put(log, index, 1, 1) == 3
    assert list(index.locate(1, 3, 1)) == [53]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [None, flip_first])
def test_consumers_move_no_queue_whose_place_is_known(
    tmp_path: Path, damage: Damaging | None
) -> None:
    before = grown(tmp_path)
    if damage is not None:
        damage(tmp_path)
    log, index = reopened(tmp_path)
    assert bool(log.damage.pending) is (damage is not None)
    for _ in range(2):
        for queue in range(3):
            index.at_least(queue, before[queue][-1] + 100)
        assert places(log, index) == before
        put_stated(log, index, 0, 1)
        before = places(log, index)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [flip_first, truncate_first, empty_first, delete_first])
def test_the_next_whole_chunk_tells_where_messages_are_that_state_nothing(
    tmp_path: Path, damage: Damaging
) -> None:
    before = grown(tmp_path)
    damage(tmp_path)
    log, index = reopened(tmp_path, states=False)
    assert places(log, index) == before
    index.close()
    log.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", HARMFUL)
def test_damage_is_pending_until_an_operator_accepts_it(tmp_path: Path, damage: Damaging) -> None:
    grown(tmp_path)
    damage(tmp_path)
    log, index = reopened(tmp_path)
    index.close()
    log.close()
    log, index = reopened(tmp_path)
    assert log.damage.pending
    assert log.damage.lost_messages == 0, "the log has them all"
    log.damage.accept(log.start_offset)
    index.close()
    log.close()
    log, index = reopened(tmp_path)
    assert not log.damage.pending


@pytest.mark.usefixtures("small")
def test_damaged_bytes_are_copied_before_they_go(tmp_path: Path) -> None:
    grown(tmp_path)
    flip_first(tmp_path)
    name = files_of(tmp_path)[0].name
    data = files_of(tmp_path)[0].read_bytes()
    log, index = reopened(tmp_path)
    (damage,) = log.damage.pending
    assert (damage.file, damage.what, damage.position) == (name, "damaged", 0)
    copy = (tmp_path / "quarantine" / damage.copy).read_bytes()
    assert copy == data[: damage.nbytes]
    index.close()


@pytest.mark.usefixtures("small")
def test_chunks_in_another_order_are_no_damage(tmp_path: Path) -> None:
    before = grown(tmp_path)
    swap_two_chunks(tmp_path)
    log, index = reopened(tmp_path)
    assert places(log, index) == before
    assert not log.damage.pending


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


@pytest.mark.usefixtures("small")
def test_a_kill_after_the_log_has_let_go_costs_no_queue_offset(tmp_path: Path) -> None:
    log = open_at(tmp_path, max_bytes_per_file=200)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for _ in range(7):
        put_stated(log, index, 0, 1)
    put_stated(log, index, 1, 1)
    let_go(log, index, log.next_offset)
    assert log.start_offset > 5
    before = places(log, index)
    log.close()  # the index is not
    log, index = reopened(tmp_path, states=False)
    assert places(log, index) == before
    assert not log.damage.pending


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
    log = open_at(tmp_path, max_bytes_per_file=600)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for number in range(40):
        put_stated(log, index, number % 2, 1)
    before = places(log, index)
    index.close()
    log.close()
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

"""Which messages are in which queue, and that files and log agree about it after any end."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues import queue_index
from penstock.storage.queues.queue_chunks import encode_chunk
from penstock.storage.queues.queue_index import OneQueue, QueueIndex, open_queues
from penstock.storage.recovery.opening import open_log
from penstock.storage.retention import Retention
from tests.unit.storage.logs import DIRECTORY, fill, new_disk, new_log


def open_at(path: Path, **options: Any) -> Log:
    return open_log(OsDisk(), str(path), 0, BlockCache(), LogOptions(**options))[0]


def put(log: Log, index: QueueIndex, queue: int, count: int) -> int:
    """Append a batch; the queue offset of its first message."""
    batch = Batch.build(log.next_offset, log.next_id, 1, count, 4, [b"body" * count], queue=queue)
    log.append([batch])
    return index.append(batch)


def content(index: QueueIndex, queues: int) -> dict[int, list[int]]:
    """Log offsets by queue, as ``locate`` gives them."""
    found = {}
    for queue in range(queues):
        low, high = index.bounds(queue)
        offsets: list[int] = []
        while low + len(offsets) < high:
            offsets += index.locate(queue, low + len(offsets), 7)
        found[queue] = offsets
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and files so small that a short story meets all their borders."""
    monkeypatch.setattr(queue_index, "CHUNK_MESSAGES", 5)
    monkeypatch.setattr(queue_index, "LAG_MAX", 16)
    monkeypatch.setattr(queue_index, "FILE_BYTES", 300)


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


STORY = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.integers(1, 7)),
        st.sampled_from(["close", "kill", "damage", "flush"]),
    ),
    max_size=40,
)


@pytest.mark.usefixtures("small")
def test_any_place_is_found_whatever_was_asked_before(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for number in range(30):
        put(log, index, number % 2, 1 + number % 3)
    whole = content(index, 2)
    for queue in (0, 1):
        high = index.bounds(queue)[1]
        for offset in (*range(high - 1, -1, -1), *range(0, high, 7)):
            assert index.locate(queue, offset, 1) == array("q", [whole[queue][offset]])
    index.close()


@pytest.mark.usefixtures("small")
@settings(deadline=None)
@given(STORY)
def test_any_end_leaves_what_the_log_says(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[int, int] | str]
) -> None:
    path = tmp_path_factory.mktemp("queues")
    log, model = open_at(path), dict[int, list[int]]((queue, []) for queue in range(4))
    index = QueueIndex(OsDisk(), str(path / "queues"), log)
    for step in story:
        if isinstance(step, tuple):
            queue, count = step
            first = log.next_offset
            assert put(log, index, queue, count) == len(model[queue])
            model[queue] += range(first, first + count)
            continue
        if step == "flush":
            index.flush()
            continue
        if step == "close":
            index.close()
        log.close()
        if step == "damage":
            for file in sorted((path / "queues").iterdir())[:1]:
                data = bytearray(file.read_bytes())
                data[len(data) // 2 :] = b"x" * (len(data) - len(data) // 2)
                file.write_bytes(data)
        log = open_at(path)
        index = QueueIndex(OsDisk(), str(path / "queues"), log)
        assert content(index, 4) == model
    assert content(index, 4) == model
    for queue, offsets in model.items():
        for place, offset in enumerate(offsets):
            assert index.search(queue, offset) == place
        assert index.search(queue, log.next_offset) == len(offsets)
    index.close()


@pytest.mark.usefixtures("small")
def test_a_log_that_a_power_cut_made_shorter_takes_the_index_with_it(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for number in range(12):
        put(log, index, number % 2, 1)
    index.close()
    log.close()
    segment = next(tmp_path.glob("*.log"))
    for other in tmp_path.glob("*.index"):
        other.unlink()
    segment.write_bytes(segment.read_bytes()[: 68 * 7])
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    assert content(index, 2) == {0: [0, 2, 4, 6], 1: [1, 3, 5]}
    for number in range(6):
        put(log, index, number % 3, 1)
    index.close()
    again = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    assert content(again, 3) == {0: [0, 2, 4, 6, 7, 10], 1: [1, 3, 5, 8, 11], 2: [9, 12]}


@pytest.mark.usefixtures("small")
def test_what_the_log_lets_go_is_forgotten(tmp_path: Path) -> None:
    log = open_at(tmp_path, max_bytes_per_file=400)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for number in range(100):
        put(log, index, number % 2, 1)
    files = len(list((tmp_path / "queues").iterdir()))
    log.trim(90, 10**18, Retention())
    index.trim()
    start = log.start_offset
    assert start > 80
    assert index.bounds(0) == ((start + 1) // 2, 50)
    assert index.locate(0, (start + 1) // 2, 1)[0] == start + start % 2
    assert len(list((tmp_path / "queues").iterdir())) < files
    assert put(log, index, 1, 1) == 50


def test_what_is_no_queue_or_no_offset_is_not_found(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    put(log, index, 1, 3)
    assert list(index.locate(1, 0, 9)) == [0, 1, 2]
    assert list(index.locate(1, -1, 9)) == []
    assert list(index.locate(0, 0, 9)) == []
    assert (index.bounds(0), index.search(0, 2)) == ((0, 0), 0)
    assert (index.end(0), index.end(1)) == (0, 3)


@pytest.mark.usefixtures("small")
def test_a_queue_whose_messages_are_all_gone_goes_on_behind_them(tmp_path: Path) -> None:
    """Else consumers, which have committed 3, would not get its next messages."""
    log = open_at(tmp_path, max_bytes_per_file=400)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    put(log, index, 1, 3)
    for _ in range(50):
        put(log, index, 0, 1)
    for _ in range(2):
        let_go(log, index, 50)
    assert log.start_offset > 3
    assert index.bounds(1) == (3, 3)
    index.close()
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    assert index.bounds(1) == (3, 3)
    assert put(log, index, 1, 1) == 3
    assert list(index.locate(1, 3, 1)) == [53]


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
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    put(log, index, 0, 4)
    index.flush()
    put(log, index, 1, 2)
    before = [file.read_bytes() for file in files_of(tmp_path)]
    index.secure(4)
    assert [file.read_bytes() for file in files_of(tmp_path)] == before
    index.secure(5)
    assert [file.read_bytes() for file in files_of(tmp_path)] != before


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
@pytest.mark.parametrize("harm", [None, "a chunk"])
def test_messages_that_a_power_cut_took_from_the_log_are_not_missed_in_the_index(
    tmp_path: Path, harm: str | None
) -> None:
    """Their offsets are given to no others, so no chunk will ever have them."""
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    for number in range(20):
        if number == 10:
            log.sync()
            log.skip_to(15)
        put(log, index, number % 2, 1)
    index.close()
    log.close()
    if harm is not None:
        file = files_of(tmp_path)[0]
        file.write_bytes(file.read_bytes()[40 + 5 * 8 :])
    log = open_at(tmp_path)
    index = QueueIndex(OsDisk(), str(tmp_path / "queues"), log)
    assert (index.bounds(0), index.bounds(1)) == ((0, 10), (0, 10))
    found = [damage.what for damage in log.damage.pending]
    assert found == ([] if harm is None else ["chunks are missing"])


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


# --- damage ------------------------------------------------------------------------------------

Damaging = Callable[[Path], None]


def stated(batch: Batch) -> int:
    """The queue offset that bodies of these tests state, as RocketMQ's messages do."""
    return int(bytes(batch.slice(batch.first_offset, batch.first_offset + 1)))


def put_stated(log: Log, index: QueueIndex, queue: int, count: int) -> None:
    first = index.bounds(queue)[1]
    bodies = [b"%08d" % (first + number) for number in range(count)]
    log.append([Batch.build(log.next_offset, log.next_id, 1, count, 8, bodies, queue=queue)])
    index.append(log.batches_at(log.next_offset - count)[0][-1])


def let_go(log: Log, index: QueueIndex, before: int) -> None:
    log.trim(before, 10**18, Retention(), about_to=index.secure)
    index.trim()


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


def places(log: Log, index: QueueIndex) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for queue in range(3):
        low, high = index.bounds(queue)
        found[queue] = {-1: high}
        for offset in range(low, high):
            (place,) = index.locate(queue, offset, 1)
            found[queue][place] = offset
            assert index.search(queue, place) == offset
    return found


def reopened(path: Path, *, states: bool = True) -> tuple[Log, QueueIndex]:
    log = open_at(path, max_bytes_per_file=600)
    directory = str(path / "queues")
    if not states:
        return log, QueueIndex(OsDisk(), directory, log)
    return log, QueueIndex(OsDisk(), directory, log, stated)


def files_of(path: Path) -> list[Path]:
    return sorted((path / "queues").iterdir())


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

"""Which messages are in which queue, and that files and log agree about it after any end."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.storage import queue_index
from penstock.storage.batch import Batch
from penstock.storage.cache import BlockCache
from penstock.storage.disk import OsDisk
from penstock.storage.log import Log, LogOptions
from penstock.storage.queue_index import OneQueue, QueueIndex, open_queues
from penstock.storage.recovery import open_log


def open_at(path: Path, **options: int) -> Log:
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
    log.append([Batch.build(0, 0, 1, 3, 1, [b"abc"])])
    assert one.bounds(0) == (0, 3)
    assert one.bounds(1) == (0, 0)
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
    from penstock.storage.retention import Retention

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

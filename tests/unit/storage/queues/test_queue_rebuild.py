"""Messages that no chunk has get their places again, or are said to be guessed."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from penstock.core.ranges import RangeSet
from penstock.storage.batch import Batch
from penstock.storage.files.disk import OsDisk
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues import queue_rebuild
from penstock.storage.queues.queue_chunks import HEADER_BYTES, Chunk, encode_chunk
from penstock.storage.queues.queue_rebuild import Rebuild, batches_of, count_between, missing
from tests.unit.storage.logs import fill, new_disk, new_log

QUEUES = (0, 1, 0, 0, 1, 0, 1, 0)
"""Of the messages of the log, by their offsets."""


def chunk_of(path: Path, queue: int, first: int, *offsets: int) -> Chunk:
    data = array("q", offsets)
    file = OsDisk().open(str(path / f"{queue}-{first}"))
    file.append(encode_chunk(queue, first, 0, data, 1))
    return Chunk(queue, first, len(data), data[0], data[-1], file, HEADER_BYTES)


def filled() -> MemoryLog:
    log = MemoryLog(1000)
    for offset, queue in enumerate(QUEUES):
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
    rebuild.walk(lost, len(QUEUES))
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
    assert [batch.queue for batch in batches_of(filled())] == list(QUEUES)


def test_the_batches_of_a_log_end_where_its_end_is_lost() -> None:
    """A power cut took messages that consumers have had: the log goes on behind their offsets."""
    log = new_log(new_disk(), mem_queue_size=0)
    fill(log, 1, 1)
    log.skip_to(5)
    assert log.next_offset == 5
    assert [batch.first_offset for batch in batches_of(log)] == [0, 1]

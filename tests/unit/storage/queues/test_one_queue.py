"""A topic with one queue: its offsets are those of the log."""

from __future__ import annotations

from pathlib import Path

from penstock.storage.batch import Batch
from penstock.storage.files.disk import OsDisk
from penstock.storage.queues.one_queue import OneQueue
from penstock.storage.queues.queue_index import open_queues

from .indexes import open_at


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

"""A topic's files are read whole unless the look is quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.doctor.queue import Queue
from penstock.core.clock import SYSTEM_CLOCK
from penstock.storage.files.dry_disk import DryDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from tests.unit.cli.doctor.patients import MESSAGES, TOPIC, healthy, segments


@pytest.mark.parametrize(("quick", "lost"), [(False, 1), (True, 0)])
def test_a_batch_that_an_index_vouches_for(tmp_path: Path, quick: bool, lost: int) -> None:
    with segments(healthy(tmp_path))[0].open("r+b") as oldest:
        oldest.seek(300)
        oldest.write(b"damaged")
    disk = DryDisk()
    store = Store(disk, str(tmp_path), LogOptions())
    queue = Queue(disk, store, TOPIC, 0)
    found = list(queue.examine(SYSTEM_CLOCK.wall_ns(), quick=quick))
    store.close()
    assert queue.messages == MESSAGES
    assert [each.code for each in found] == ["damage"] * lost
    assert all("1 message is lost, offset " in each.what for each in found)
    assert all(f"topic/damage/accept?topic={TOPIC}" in each.remedy for each in found)

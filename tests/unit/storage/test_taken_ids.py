"""The ids of deleted queues, which no later queue gets."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.ids import COUNTER_MAX, id_base
from penstock.storage.taken_ids import TakenIds
from penstock.testing.disk import FaultyDisk

NODE = 3
WALL = 1_700_000_000_000_000_000
BASE = id_base(NODE, WALL)
PATH = "/data/ids.json"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def test_a_new_queue_begins_with_the_time(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    assert taken.new_base(NODE, WALL) == BASE
    taken.take(BASE + 5, durably=True)
    assert taken.new_base(NODE, WALL + 10**9) == BASE + 10**6


@pytest.mark.parametrize("given", [0, 1, 10**6])
@pytest.mark.parametrize("set_back_ns", [0, 10**9, WALL])
def test_a_deleted_queues_ids_are_not_given_again_whatever_the_clock_says(
    disk: FaultyDisk, given: int, set_back_ns: int
) -> None:
    TakenIds(disk, "/data").take(BASE + given, durably=True)
    disk.crash(SystemChance())  # a power cut
    assert TakenIds(disk, "/data").new_base(NODE, WALL - set_back_ns) == BASE + given + 1


def test_what_was_taken_stays_taken(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(BASE + 7, durably=True)
    taken.take(BASE + 2, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, 0) == BASE + 8


def test_another_node_id_keeps_its_bits(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(BASE, durably=True)
    assert taken.new_base(NODE + 1, 0) == id_base(NODE + 1, WALL) + 1
    taken.take(id_base(NODE, 0) + COUNTER_MAX, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, 0) == id_base(NODE, 0) + COUNTER_MAX


def test_ids_of_what_is_in_memory_only_are_taken_until_the_end(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(BASE, durably=False)
    assert taken.new_base(NODE, WALL) == BASE + 1
    assert disk.paths() == []


def test_a_full_disk_refuses_no_deletion(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    taken = TakenIds(disk, "/data")
    disk.fill()
    taken.take(BASE, durably=True)
    assert "cannot write down the ids of a deleted topic - /data/ids.json: " in caplog.text
    assert taken.new_base(NODE, WALL) == BASE + 1


@pytest.mark.parametrize("spoiled", [b"", b"{", b"[]", b'{"least":-1}', b'{"least":1e30}'])
def test_a_damaged_file_is_named_and_counts_as_missing(
    disk: FaultyDisk, spoiled: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk.replace_file(PATH, spoiled)
    taken = TakenIds(disk, "/data")
    assert f"{PATH}: " in caplog.text
    assert taken.new_base(NODE, WALL) == BASE
    taken.take(BASE, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, WALL) == BASE + 1

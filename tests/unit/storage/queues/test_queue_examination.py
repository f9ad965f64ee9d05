"""An index of queues after power cuts: what was not synced is made again, and is no damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.storage.log import Log
from penstock.storage.queues.one_queue import OneQueue
from penstock.storage.queues.queue_index import QueueIndex, open_queues
from penstock.storage.retention import Retention
from penstock.testing.disk import FaultyDisk, Operation
from tests.unit.storage.logs import DIRECTORY, fill, new_disk, new_log

from .indexes import let_go, places, put_stated, stated

QUEUES = f"{DIRECTORY}/queues"


class Story:
    """A topic of three queues that grows, lets go, and ends in some way, again and again."""

    def __init__(self, seed: int, *, syncs: bool = True) -> None:
        self.syncs = syncs
        self.random = random.Random(seed)
        self.chance = SystemChance(seed)
        self.disk = new_disk()
        self.log, self.index = opened(self.disk)

    def grow(self) -> None:
        for _ in range(self.random.randrange(5, 60)):
            put_stated(self.log, self.index, self.random.randrange(3), self.random.randrange(1, 4))
            if self.random.random() < 0.1:
                self.index.flush()
            if self.random.random() < 0.05:
                self.sync()
                let_go(self.log, self.index, self.log.next_offset - self.random.randrange(30))
        self.sync()

    def sync(self) -> None:
        if self.syncs or self.random.random() < 0.5:
            self.log.sync()

    def end(self, power_cuts: bool) -> None:
        if self.random.random() < 0.2:
            self.index.close()
            self.log.close()
        self.disk.crash(self.chance if power_cuts else "written")
        self.log, self.index = opened(self.disk)


def opened(disk: FaultyDisk) -> tuple[Log, QueueIndex]:
    log = new_log(disk, max_bytes_per_file=600)
    return log, QueueIndex(disk, QUEUES, log, stated)


def has_lost_middle(log: Log) -> bool:
    return any(damage.messages for damage in (*log.damage.pending, *log.damage.known))


def from_offset(start: int, found: dict[int, dict[int, int]]) -> dict[int, dict[int, int]]:
    """What there is from a start of the log on: a power cut may bring back what it let go."""
    return {
        queue: {place: offset for place, offset in offsets.items() if place < 0 or place >= start}
        for queue, offsets in found.items()
    }


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(100))
def test_a_power_cut_or_a_kill_is_no_damage_and_moves_no_queue(seed: int) -> None:
    story = Story(seed)
    for _ in range(6):
        story.grow()
        start, before = story.log.start_offset, places(story.log, story.index)
        story.end(power_cuts=story.random.random() < 0.8)
        assert not story.log.damage.pending
        assert from_offset(start, places(story.log, story.index)) == before


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(200))
def test_a_log_that_a_power_cut_makes_shorter_moves_no_queue(seed: int) -> None:
    story = Story(seed, syncs=False)
    for _ in range(6):
        story.grow()
        before = places(story.log, story.index)
        story.end(power_cuts=story.random.random() < 0.8)
        if has_lost_middle(story.log):
            return  # nobody synced it, so it is lost
        assert not story.log.damage.pending
        start, end = story.log.start_offset, story.log.next_offset
        for queue, found in places(story.log, story.index).items():
            left = {place: found.get(place) for place in before[queue] if start <= place < end}
            assert left == {place: before[queue][place] for place in left}
            assert found[-1] == max([offset + 1 for offset in left.values() if offset is not None],
                                    default=found[-1])  # fmt: skip


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


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [0, 20])
@pytest.mark.parametrize("seed", range(4))
def test_a_log_may_let_go_of_all_up_to_messages_that_were_lost(seed: int, count: int) -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(count):
        put_stated(log, index, number % 3, 2)
    index.flush()
    log.sync()
    log.skip_to(60)
    let_go(log, index, 60)
    assert log.start_offset == 60
    before = places(log, index)
    disk.sync_directory(DIRECTORY)
    disk.crash(SystemChance(seed))
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


def flip(disk: FaultyDisk, path: str) -> None:
    disk.flip(path, 8 * 20)


def cut_short(disk: FaultyDisk, path: str) -> None:
    disk.cut(path, len(disk.content(path)) // 2)


def lose(disk: FaultyDisk, path: str) -> None:
    disk.remove(path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("harm", [flip, cut_short, lose])
@pytest.mark.parametrize("seed", range(4))
def test_damage_to_what_was_synced_is_told_even_after_a_power_cut(seed: int, harm: Harm) -> None:
    disk = new_disk()
    log, index = opened(disk)
    for number in range(60):
        put_stated(log, index, number % 3, 2)
        if number in (30, 50):  # the second syncs the first one's mark
            index.secure(log.next_offset)
    log.sync()
    disk.crash(SystemChance(seed))
    before = len(disk.paths(".chunks"))
    assert before > 2
    harm(disk, disk.paths(".chunks")[1])
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

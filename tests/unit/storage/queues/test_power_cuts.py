"""An index of queues after power cuts: what was not synced is made again, and is no damage."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from penstock.core.chance import SystemChance
from penstock.storage.log import Log
from penstock.storage.queues.queue_index import QueueIndex
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import DIRECTORY, new_disk, new_log

from .indexes import let_go, places, put_stated, stated

QUEUES = f"{DIRECTORY}/queues"


class Story:
    """A topic of three queues that grows, lets go, and ends in some way, again and again."""

    def __init__(self, seed: int) -> None:
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
                self.log.sync()
                let_go(self.log, self.index, self.log.next_offset - self.random.randrange(30))
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

"""An index of queues does what a dict of their messages does; hypothesis looks for the story.

The log grows, lets go, skips what was lost; the disk fills up, fails, loses its power: no queue
offset of a message ever changes, and none of it is damage.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.storage.queues.queue_index import QueueIndex
from penstock.storage.retention import Retention
from tests.unit.storage.logs import DIRECTORY, new_disk, new_log

from .indexes import places, put_stated, stated

QUEUES = f"{DIRECTORY}/queues"
PUTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=20)


class QueueMachine(RuleBasedStateMachine):
    """A topic of three queues."""

    @initialize(states=st.booleans(), is_synced=st.booleans())
    def begin(self, states: bool, is_synced: bool) -> None:
        self.disk = new_disk()
        self.states = states  # whether messages tell their offset
        self.is_synced = is_synced  # whether a power cut costs no message
        self.queues: list[dict[int, int]] = [{}, {}, {}]  # queue offsets by log offset
        self.ends = [0, 0, 0]
        self.start = 0  # a power cut may bring back what the log let go
        self.is_harmed = self.is_full = self.is_lost = False
        self.open()

    def open(self) -> None:
        self.log = new_log(self.disk, max_bytes_per_file=600)
        states = (stated,) if self.states else ()
        self.index = QueueIndex(self.disk, QUEUES, self.log, *states)

    @precondition(lambda self: not self.is_full)
    @rule(puts=PUTS)
    def put(self, puts: list[tuple[int, int]]) -> None:
        for queue, count in puts:
            first = self.log.next_offset
            put_stated(self.log, self.index, queue, count)
            for place in range(first, first + count):
                self.queues[queue][place] = self.ends[queue]
                self.ends[queue] += 1
        if self.is_synced:
            self.log.sync()

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule(back=st.integers(0, 30))
    def let_go(self, back: int) -> None:
        """Delete segments: the disk needs the room whatever becomes of the index."""
        if not self.is_full:
            self.log.sync()

        def secure(start: int) -> None:
            with suppress(StorageError):
                self.index.secure(start)

        self.log.trim(self.log.next_offset - back, 10**18, Retention(), about_to=secure)
        with suppress(StorageError):
            self.index.trim()
        self.start = max(self.start, self.log.start_offset)
        for number, queue in enumerate(self.queues):
            self.queues[number] = {place: o for place, o in queue.items() if place >= self.start}

    @rule(step=st.integers(1, 30), lets_go=st.booleans(), fills=st.booleans())
    def skip(self, step: int, lets_go: bool, fills: bool) -> None:
        """Messages that a power cut took are missed by nobody."""
        if self.is_full:
            self.heal()
        self.log.sync()
        self.log.skip_to(self.log.next_offset + step)
        if lets_go and fills:
            self.fill()
        if lets_go:
            self.let_go(0)
        else:
            self.put([(0, 1)])

    @rule()
    def fill(self) -> None:
        self.disk.fill()
        self.is_full = True

    @rule()
    def fail_to_sync(self) -> None:
        self.disk.fail("sync", within=".chunks")

    @rule()
    def heal(self) -> None:
        self.disk.heal()
        self.is_full = False
        self.index.trim()  # writes what it could not

    @rule(harm=st.booleans())
    def stop(self, harm: bool) -> None:
        self.heal()
        self.index.close()
        self.log.close()
        if harm and not self.log.start_offset:  # all can be made again
            for path in filter(self.disk.content, self.disk.paths(".chunks")[:1]):
                self.disk.flip(path, 4 * len(self.disk.content(path)) - 1)
                self.is_harmed = True
        self.disk.crash("written")
        self.open()

    @rule()
    def kill(self) -> None:
        self.heal()
        self.disk.crash("written")
        self.open()

    @rule(seed=st.integers(0, 1 << 16))
    def cut_power(self, seed: int) -> None:
        self.heal()
        self.disk.crash(SystemChance(seed))
        self.open()
        end = self.log.next_offset
        self.is_lost = any(d.messages for d in (*self.log.damage.pending, *self.log.damage.known))
        for number, queue in enumerate(self.queues):
            left = {place: offset for place, offset in queue.items() if place < end}
            if len(left) < len(queue):
                assert not self.is_synced
                low, high = self.index.bounds(number)
                assert high >= low
                self.ends[number] = max((o + 1 for o in left.values()), default=high)
            self.queues[number] = left

    @invariant()
    def queues_are_what_the_model_has(self) -> None:
        if not hasattr(self, "log") or self.is_lost:
            return
        assert self.is_harmed or not self.log.damage.pending, self.log.damage.pending
        found = places(self.log, self.index)
        for number, queue in enumerate(self.queues):
            assert found[number].pop(-1) == self.ends[number]
            assert self.index.search(number, self.log.next_offset) == self.ends[number]
            assert {p: o for p, o in found[number].items() if p >= self.start} == queue


@pytest.mark.usefixtures("small")
def test_queues_do_what_their_model_does() -> None:
    # To make a story shorter takes minutes, which CI does not have.
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(stateful_step_count=40, phases=[Phase.generate]),
    )


@pytest.mark.usefixtures("small")
def test_a_mark_of_what_is_lost_is_written_once_the_disk_has_room() -> None:
    story = QueueMachine()
    story.begin(states=False, is_synced=True)
    story.put([(0, 3), (1, 2)])
    story.flush()
    story.skip(step=9, lets_go=True, fills=True)
    story.stop(harm=False)
    story.queues_are_what_the_model_has()

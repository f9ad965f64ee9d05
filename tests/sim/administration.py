"""Rules of time, and of what an operator or housekeeping does."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.sim.consuming import Consuming
from tests.sim.machine import CHANNELS, SECOND, TIMEOUT
from tests.sim.model import GRAIN_NS


class Administration(Consuming):
    """Time that passes, pauses, emptying, saves and trims."""

    @rule(ns=st.sampled_from([1, SECOND, 3 * SECOND, TIMEOUT, 40 * SECOND]))
    def advance(self, ns: int) -> None:
        self.clock.advance(ns)
        now = self.clock.monotonic_ns()
        channels = self.broker.tick(now)
        self.note_timeouts(now)
        for channel in channels:
            channel.dispatch(now)

    def note_timeouts(self, now: int) -> None:
        for name, channel in self.topic.channels.items():
            model = self.model.channels[name]
            still = {o for a, b in channel.state.in_flight() for o in range(a, b)}
            for offset, held in list(model.held.items()):
                if offset in still:
                    assert now < held.deadline + GRAIN_NS, f"{offset} should have timed out"
                else:
                    assert now >= held.deadline, f"{offset} timed out too early"
                    model.let_go(offset)
            assert still == set(model.held)

    @rule(which=st.sampled_from(("topic", *CHANNELS)))
    def pause_or_unpause(self, which: str) -> None:
        if which == "topic":
            self.model.paused = not self.model.paused
            if self.model.paused:
                self.topic.pause()
            else:
                self.model.distribute()
                self.topic.unpause()
            self.progress_written()
        elif which in self.model.channels:
            model, channel = self.model.channels[which], self.topic.channels[which]
            model.paused = not model.paused
            if model.paused:
                channel.pause()
            else:
                channel.unpause()
        self.dispatch()

    @rule(which=st.sampled_from(("topic", *CHANNELS)))
    def empty(self, which: str) -> None:
        if which == "topic":
            waits = self.topic.depth > 0
            self.topic.empty()
            self.model.empty()
            if waits:  # or there was nothing to write down
                self.progress_written()
        elif which in self.model.channels:
            self.topic.channels[which].empty()
            self.model.channels[which].empty()

    @rule(name=st.sampled_from(["g", "h"]), fraction=st.floats(0, 1))
    def commit_group(self, name: str, fraction: float) -> None:
        start, end = self.log.start_offset, self.log.next_offset
        self.model.groups[name] = start + int(fraction * (end - start))
        self.topic.commit_group(name, self.model.groups[name])

    @rule()
    def save(self) -> None:
        self.broker.save()
        if self.topic.changed:
            assert self.broker.health is not None
            self.doubtful = True
            return
        assert self.broker.health is None or self.topic.damage.pending or self.untrimmed
        self.doubtful = False
        for channel in self.model.channels.values():
            channel.saved()

    @rule()
    def trim(self) -> None:
        before = self.log.start_offset
        self.broker.trim()
        self.untrimmed = self.broker.health is not None  # the disk may have failed
        start = self.log.start_offset
        self.trimmed = max(start, self.trimmed)  # of what was, a power cut may bring back a part
        # A kill forgets how far a group was when it let go of the log's start: then it is behind.
        assert start == before or start <= min([self.model.head, *self.model.groups.values()])
        for channel in self.model.channels.values():
            assert start <= min(channel.owed, default=start)

"""Broker and log against a simple model, over a disk that fails: hypothesis looks for the story.

``PENSTOCK_SIM=nightly`` searches for long and makes the story that fails a short one; otherwise a
short search, which tells the story as it was.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test

from penstock.broker.channels.channel import Channel
from penstock.storage.durability import Durability
from tests.sim.machine import CHANNELS, SECOND, Reader
from tests.sim.misfortune import Misfortune
from tests.sim.profiles import profile


class BrokerMachine(Misfortune):
    """One durable topic, its channels and consumers, and everything that may befall them."""

    @initialize(
        level=st.sampled_from([Durability.WRITE, Durability.FSYNC]),
        file_bytes=st.sampled_from([300, 2000, 100_000]),
        memory=st.sampled_from([0, 2, 50, 10_000]),
        partial=st.booleans(),
        channels=st.integers(0, 2),
    )
    def begin(
        self, level: Durability, file_bytes: int, memory: int, partial: bool, channels: int
    ) -> None:
        self.start(level, file_bytes, memory, partial)
        for name in CHANNELS[:channels]:
            self.make_channel(name)

    def carry_dead_letters(self, channel: Channel) -> None:
        """There are none where attempts have no limit."""

    # --- always --------------------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "topic"):
            return
        assert self.log.next_offset == self.model.next_offset
        assert self.log.append_offset == self.model.append_offset
        for name, channel in self.topic.channels.items():
            model, state = self.model.channels[name], channel.state
            assert state.in_flight_count == len(model.held), name
            waiting = state.depth + state.deferred_count + state.in_flight_count
            assert waiting >= len(model.owed), f"{name}: {waiting} of {len(model.owed)}"
            assert state.depth >= 0

    @invariant()
    def what_can_be_seen_at_fsync_survives_a_power_cut(self) -> None:
        if not hasattr(self, "topic") or self.level is not Durability.FSYNC:
            return
        seen = {o for o in self.model.bodies if o < self.log.next_offset}
        assert seen - self.suspect <= self.model.durable
        assert self.log.append_offset > max(self.handed, default=-1), "given out twice"

    def teardown(self) -> None:
        """In the end every channel gets all that it is owed."""
        if not hasattr(self, "topic"):
            return
        self.disk.heal()
        self.end_sync()
        self.begin_sync()
        self.end_sync()  # what is published has arrived by now
        self.model.paused = False
        self.topic.unpause()
        self.model.distribute()
        for reader in self.readers:
            reader.channel.remove_consumer(reader.consumer)
        self.readers.clear()
        for name in self.model.channels:
            self.drain(name)

    def drain(self, name: str) -> None:
        channel, model = self.topic.channels[name], self.model.channels[name]
        channel.paused = model.paused = False
        reader = Reader(self, -1, channel)
        reader.consumer.ready = 7
        channel.add_consumer(reader.consumer)
        channel.refresh(reader.consumer)
        for _ in range(500):
            self.carry_dead_letters(channel)
            channel.dispatch(self.clock.monotonic_ns())
            held = reader.held()
            if not held and not model.owed:
                break
            assert not channel.finish(reader.consumer, np.array(held, np.int64))
            for offset in held:
                model.finish(offset)
            if not held:
                self.advance(7 * SECOND)
        assert not model.owed, f"channel {name} never got {sorted(model.owed)[:10]}"
        channel.remove_consumer(reader.consumer)


def test_broker_does_what_the_model_does() -> None:
    run_state_machine_as_test(BrokerMachine, settings=profile())

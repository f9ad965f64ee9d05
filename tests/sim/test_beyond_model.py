"""The same story with what NSQ has not: dead letters, bounds, seeking, cancelled deferrals."""

from __future__ import annotations

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from penstock.broker.channels.channel import Channel
from penstock.broker.dead_letters import DeadLetterBatch, decode_origins, encode_origins
from penstock.broker.progress import ChannelSettings, TopicSettings
from penstock.broker.publish.bounds import TopicFullError
from penstock.core.errors import StorageError
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.dead_letters import DeadLetterFrames
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from tests.sim.machine import BODY_AT, ID, SECOND
from tests.sim.profiles import profile
from tests.sim.test_broker_model import BrokerMachine


class BeyondMachine(BrokerMachine):
    """A topic that is bounded, and channels that give up, go back and forget.

    Dead letters go to a place that cannot fail of itself; whether it takes them, and whether the
    broker lives to hear of it, is drawn.
    """

    least: int  # the lowest limit of attempts so far
    rots = False  # what was cancelled or moved would come again

    # --- dead letters --------------------------------------------------------------------------

    @precondition(lambda self: self.model.channels)
    @rule(data=st.data(), most=st.sampled_from([0, 1, 2, 3]))
    def limit_attempts(self, data: st.DataObject, most: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.channels)))
        self.topic.configure_channel(ChannelSettings(name, most))
        self.model.channels[name].max_attempts = most
        self.least = min(self.least, most or self.least)
        self.progress_written()
        self.dispatch()

    @precondition(lambda self: any(c.state.spent.count for c in self.topic.channels.values()))
    @rule()
    def publish_dead_letters(self) -> None:
        for channel in self.topic.channels.values():
            if channel.state.spent.count and channel not in self.parcels:
                self.begin_move(channel)

    @precondition(lambda self: self.parcels)
    @rule(taken=st.booleans())
    def settle_dead_letters(self, taken: bool) -> None:
        for channel in list(self.parcels):
            self.end_move(channel, taken)
        self.dispatch()

    def carry_dead_letters(self, channel: Channel) -> None:
        while channel in self.parcels or self.begin_move(channel):
            self.end_move(channel, taken=True)

    def open(self) -> None:
        super().open()
        self.parcels: dict[Channel, tuple[DeadLetterBatch, set[int]]] = {}
        self.least = getattr(self, "least", 1000)
        self.skipped = getattr(self, "skipped", False)  # the topic has dropped what it held itself

    def end_move(self, channel: Channel, taken: bool) -> None:
        """The outcome; the channel may have been emptied, moved or deleted meanwhile."""
        parcel, moved = self.parcels.pop(channel)
        before = channel.dead_letter_count
        channel.settle(parcel, self.clock.monotonic_ns(), moved=taken)
        if channel.dead_letter_count > before:
            assert taken
            self.model.channels[channel.name].give_up(moved)

    def begin_move(self, channel: Channel) -> bool:
        """Publish some; False when there is nothing, or nothing could be read."""
        model = self.model.channels[channel.name]
        now = self.clock.monotonic_ns()
        parcel = channel.take_spent(now)
        if parcel is None:
            return False
        letters = DeadLetterFrames(parcel.frames, encode_origins(parcel.origins))
        frames, table = letters.encode(7, now)
        batch = Batch.build(0, 7, now, letters.count, 0, [frames], table=table, note=letters.note)
        origins = decode_origins(Batch.parse(batch.raw).note)
        assert origins is not None
        assert (origins.topic, origins.channel) == ("t", channel.name)
        moved = set()
        for index, (identifier, attempts) in enumerate(
            zip(origins.ids, origins.attempts, strict=True)
        ):
            offset = identifier - self.log.id_base
            frame = bytes(batch.slice(index, index + 1))
            assert frame[BODY_AT:] == self.model.bodies[offset]
            assert frame[ID] == b"%016x" % (7 + index)
            assert offset in model.owed | model.may_come
            assert offset not in model.held
            if offset not in model.uncertain:
                assert attempts == model.attempts[offset]
            assert attempts >= self.least  # the limit may have been raised meanwhile
            moved.add(offset)
        assert channel not in self.parcels, "one move at a time"
        self.parcels[channel] = parcel, moved
        return True

    # --- bounds --------------------------------------------------------------------------------

    @rule(
        depth=st.sampled_from([0, 3, 10, 30]),
        nbytes=st.sampled_from([0, 0, 1500]),
        overflow=st.sampled_from([None, "refuse", "drop-oldest"]),
    )
    def bound(self, depth: int, nbytes: int, overflow: str | None) -> None:
        self.topic.configure(TopicSettings(depth, nbytes, overflow))
        self.progress_written()

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=8),
        equal=st.booleans(),
        delay=st.sampled_from([0, 0, 0, 1, 3 * SECOND, 20 * SECOND]),
        parts=st.integers(1, 3),
    )
    def publish(self, sizes: list[int], equal: bool, delay: int, parts: int) -> None:
        """As before, but a full topic refuses single publishes, or drops old messages."""
        groups = [[self.body(sizes[0] if equal else size) for size in sizes] for _ in range(parts)]
        outcomes: list[StorageError | None] = []
        for bodies in groups:
            self.topic.stage(Bodies.from_list(bodies), delay, outcomes.append)
        bounds = self.topic.config.bounds
        refuses = bounds and bounds.overflow.value == "refuse"
        used = self.used()
        before = self.log.append_offset
        told, error = self.topic.commit()
        for done in told:
            done(error)
        assert len(outcomes) == parts
        due = self.clock.monotonic_ns() + delay if delay else 0
        if error is not None:
            note(f"refused: {error}")
            assert self.log.append_offset == before
            self.ghosts |= {body: due for bodies in groups for body in bodies}
            return
        assert not self.broken or self.log.append_offset == before
        for bodies, outcome in zip(groups, outcomes, strict=True):
            if refuses and bounds.max_depth and not bounds.max_bytes:
                assert (outcome is None) == (used + len(bodies) <= bounds.max_depth)
            if outcome is None:
                used += len(bodies)
                self.model.publish(bodies, due)
            else:
                assert refuses
                assert isinstance(outcome, TopicFullError)
        if self.level is not Durability.FSYNC:
            self.show(self.model.append_offset)

    def show(self, end: int) -> None:
        arrives = end > self.model.next_offset
        self.model.show(end)
        bounds = self.topic.config.bounds
        if arrives and bounds and bounds.overflow.value != "refuse":
            self.note_drops(bounds.max_depth)
        self.dispatch()

    def used(self) -> int:
        """The messages that the topic and its fullest channel hold or will hold, simply counted."""
        end = self.log.append_offset
        held = [end - c.state.head + c.state.unfinished_count for c in self.topic.channels.values()]
        return max([*held, end - self.topic.head])

    def note_drops(self, max_depth: int) -> None:
        for name, channel in self.topic.channels.items():
            model = self.model.channels[name]
            state = channel.state
            needed = {o for first, next_ in state.needed() for o in range(first, next_)}
            dropped = model.owed - needed
            assert not dropped & set(model.held)
            other = set(model.held) | set(model.not_before) | set(model.attempts)
            other |= set(self.model.due)  # released deferrals wait in the order of their deadlines
            kept = needed & set(self.model.bodies) - other  # a power cut may have taken some
            fresh = dropped - other
            assert not fresh or not kept or max(fresh) < min(kept), "the oldest go first"
            model.give_up(dropped | (model.may_come - needed))
            if max_depth:
                waiting = state.unfinished_count - state.in_flight_count - state.spent.count
                over = state.unfinished_count + self.log.next_offset - state.head - max_depth
                assert over <= 0 or not waiting, f"{name} holds {over} too many"
        skipped = set(range(self.model.head, self.topic.head))
        for model in self.model.channels.values():
            model.unsaved |= skipped  # their place may be as old as what they finished
        self.skipped = self.skipped or bool(skipped)
        self.model.head = self.topic.head

    def compare_log(self, power_cut: bool) -> None:
        if self.topic.head < min(self.model.head, self.log.next_offset):
            assert self.skipped, "only what was dropped in the topic may be back"
            self.model.head = self.topic.head
        super().compare_log(power_cut)

    # --- going elsewhere -----------------------------------------------------------------------

    @precondition(lambda self: self.model.channels)
    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.channels)))
        offset = data.draw(st.integers(self.log.start_offset, self.log.next_offset))
        self.topic.seek(self.topic.channels[name], offset)
        model = self.model.channels[name]
        model.start = offset
        owed = {o for o in self.model.bodies if offset <= o < self.model.head}
        model.seek(owed, self.model.due)
        self.progress_written()
        self.dispatch()

    @precondition(lambda self: any(c.state.deferred_count for c in self.topic.channels.values()))
    @rule(data=st.data(), cancel=st.booleans(), every=st.booleans())
    def cancel_or_release(self, data: st.DataObject, cancel: bool, every: bool) -> None:
        channels = [c for c in self.topic.channels.values() if c.state.deferred_count]
        channel = data.draw(st.sampled_from(channels))
        model = self.model.channels[channel.name]
        deferred = sorted(o for e in channel.state.deferred for o in range(e.first, e.next))
        chosen = deferred if every else data.draw(st.lists(st.sampled_from(deferred), max_size=5))
        wanted = None if every else [*chosen, self.log.next_offset, -1]
        take = channel.state.cancel_deferred if cancel else channel.release_deferred
        taken = [o for e in take(wanted) for o in range(e.first, e.next)]
        assert sorted(taken) == sorted(set(chosen))
        if cancel:
            model.give_up(set(taken))
        for offset in taken:
            model.release(offset)
        self.topic.journal.save_now()
        self.progress_written()
        self.dispatch()

    @precondition(lambda self: self.topic.channels)
    @rule()
    def settings_hold(self) -> None:
        for name, channel in self.topic.channels.items():
            assert channel.max_attempts == self.model.channels[name].max_attempts


def test_what_nsq_has_not_does_what_the_model_does() -> None:
    run_state_machine_as_test(BeyondMachine, settings=profile())

"""Rules of channels and their consumers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.broker.channels.channel import NotInFlightError
from tests.sim.machine import CHANNELS, SECOND, TIMEOUT, TIMEOUT_MAX, Reader
from tests.sim.model import Held, ModelChannel
from tests.sim.publishing import Publishing


class Consuming(Publishing):
    """Channels that come and go, and everything that a consumer may do."""

    @rule(name=st.sampled_from(CHANNELS))
    def make_channel(self, name: str) -> None:
        forgotten = range(self.topic.head, self.model.head) if self.rotted else range(0)
        self.topic.channel(name)
        if name not in self.model.channels:
            self.model.channels[name] = ModelChannel(self.model.head)
            self.model.channels[name].may_come |= self.model.bodies.keys() & set(forgotten)
            self.progress_written()
            self.add_reader(name, 5)
        self.topic.distribute()
        self.model.distribute()
        self.dispatch()

    @precondition(lambda self: len(self.model.channels) > 1)
    @rule(data=st.data())
    def delete_channel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.channels)))
        self.topic.delete_channel(name)
        self.readers = [reader for reader in self.readers if reader.channel.name != name]
        del self.model.channels[name]
        self.progress_written()

    @precondition(lambda self: self.model.channels and len(self.readers) < 4)
    @rule(data=st.data(), ready=st.integers(1, 9))
    def subscribe(self, data: st.DataObject, ready: int) -> None:
        self.add_reader(data.draw(st.sampled_from(sorted(self.model.channels))), ready)

    def add_reader(self, name: str, ready: int) -> None:
        self.serial += 1
        reader = Reader(self, self.serial, self.topic.channels[name])
        reader.channel.add_consumer(reader.consumer)
        self.readers.append(reader)
        self.set_ready(reader, ready)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), ready=st.integers(0, 9))
    def change_ready(self, data: st.DataObject, ready: int) -> None:
        self.set_ready(data.draw(st.sampled_from(self.readers)), ready)

    def set_ready(self, reader: Reader, ready: int) -> None:
        reader.consumer.ready = max(ready, len(reader.held()))
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def stall_or_resume(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader.consumer.writable = not reader.consumer.writable
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        self.readers.remove(reader)
        reader.channel.remove_consumer(reader.consumer)
        reader.channel.refresh(reader.consumer)
        self.dispatch()

    @precondition(lambda self: any(reader.model.held for reader in self.readers))
    @rule(data=st.data(), shuffled=st.booleans(), strange=st.booleans())
    def finish(self, data: st.DataObject, shuffled: bool, strange: bool) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.model.held]))
        offsets = reader.held()
        if shuffled:
            offsets = data.draw(st.permutations(offsets))
        offsets = offsets[: data.draw(st.integers(0, len(offsets)))]
        wrong = []
        if strange:
            foreign = [o for o, held in reader.model.held.items() if held.consumer != reader.number]
            wrong = [self.log.next_offset + 7, -1, *foreign[:2]]
            wrong += offsets[:1]  # the second time it is not in flight any more
        expected = sorted(wrong)
        failed = reader.channel.finish(reader.consumer, np.array([*offsets, *wrong], np.int64))
        assert sorted(failed) == expected
        for offset in offsets:
            reader.model.finish(offset)
        self.dispatch()

    @precondition(lambda self: any(reader.held() for reader in self.readers))
    @rule(data=st.data(), delay=st.sampled_from([0, 0, 2 * SECOND, 30 * SECOND]))
    def requeue(self, data: st.DataObject, delay: int) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.held()]))
        offset = data.draw(st.sampled_from(reader.held()))
        now = self.clock.monotonic_ns()
        reader.channel.requeue(reader.consumer, offset, delay, now)
        reader.model.let_go(offset, now + delay if delay else 0)
        self.dispatch()

    @precondition(lambda self: any(reader.held() for reader in self.readers))
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from([r for r in self.readers if r.held()]))
        offset = data.draw(st.sampled_from(reader.held()))
        now = self.clock.monotonic_ns()
        reader.channel.touch(reader.consumer, offset, now)
        held = reader.model.held[offset]
        reader.model.held[offset] = Held(
            held.consumer, min(now + TIMEOUT, held.delivered + TIMEOUT_MAX), held.delivered
        )

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        now = self.clock.monotonic_ns()
        with pytest.raises(NotInFlightError):
            reader.channel.requeue(reader.consumer, self.log.next_offset, 0, now)
        with pytest.raises(NotInFlightError):
            reader.channel.touch(reader.consumer, -1, now)

"""Spans of messages, made from what a broker and its channels tell."""

from __future__ import annotations

import pytest

from penstock.broker.channels.channel import Channel
from penstock.core.units import SECOND
from penstock.nsq.nsqd.tracing import message_spans
from penstock.nsq.nsqd.tracing.message_spans import MessageSpan, MessageSpans, traced
from penstock.nsq.trace_context import delivery_span, publish_span
from tests.unit.broker.conftest import TIMEOUT, Reader, World


class Traced:
    """A world whose topic has a channel, and the spans that came of it."""

    def __init__(self, every: int = 1) -> None:
        self.world = World()
        self.spans: list[MessageSpan] = []
        self.maker = MessageSpans(
            self.world.broker.topics, self.world.clock, every, self.spans.append
        )
        self.world.broker.observe(self.maker)
        self.channel = self.made("c")
        self.base = self.world.topic.log.id_base

    def made(self, name: str) -> Channel:
        channel = self.world.channel(name)
        self.maker.channel_created(self.world.topic, channel)
        return channel

    def take(self) -> list[MessageSpan]:
        spans, self.spans[:] = list(self.spans), []
        return spans

    def outcomes(self) -> list[tuple[int, str, int, str]]:
        """(offset, channel, attempts, outcome) of the deliveries that have ended."""
        return [
            (span.message_id - self.base, span.channel, span.attempts, span.outcome)
            for span in self.take()
            if span.parent
        ]


def test_a_publish_and_its_delivery() -> None:
    it = Traced()
    reader = Reader(it.world, it.channel, 1)
    begun = it.world.clock.wall_ns()
    it.world.publish(b"a")
    it.world.clock.advance(SECOND)
    reader.take()
    it.world.clock.advance(2 * SECOND)
    reader.finish(0)
    published, delivered = it.take()
    root = publish_span("t", it.base)
    assert published == MessageSpan(root, None, "t", "", it.base, 0, begun, begun, "")
    assert delivered == MessageSpan(delivery_span("t", "c", it.base, 1), root, "t", "c", it.base,
                                    1, begun + SECOND, begun + 3 * SECOND, "finished")  # fmt: skip


def test_every_outcome() -> None:
    it = Traced()
    reader = Reader(it.world, it.channel, 10)
    it.world.publish(b"a", b"b", b"c", b"d")
    reader.take()
    reader.finish(0)
    reader.requeue(1)
    reader.take()
    reader.finish(1)
    it.world.wait(TIMEOUT + SECOND)
    reader.finish(2)
    it.channel.empty()
    assert it.outcomes() == [
        (0, "c", 1, "finished"),
        (1, "c", 1, "requeued"),
        (1, "c", 2, "finished"),
        (2, "c", 1, "timed out"),
        (3, "c", 1, "timed out"),
        (2, "c", 2, "finished"),
        (3, "c", 2, "dropped"),
    ]


def test_channels_have_deliveries_of_their_own() -> None:
    it = Traced()
    other = it.made("other")
    readers = Reader(it.world, it.channel, 10), Reader(it.world, other, 10)
    it.world.publish(b"a")
    for reader in readers:
        reader.take()
    it.world.topic.delete_channel("c")
    readers[1].finish(0)
    assert it.outcomes() == [(0, "c", 1, "dropped"), (0, "other", 1, "finished")]


def test_only_multiples_are_traced() -> None:
    it = Traced(every=3)
    reader = Reader(it.world, it.channel, 10)
    it.world.publish(*[b"%d" % number for number in range(10)])
    reader.take()
    reader.finish(*range(10))
    ids = [it.base + offset for offset in range(10) if (it.base + offset) % 3 == 0]
    assert [span.message_id for span in it.take()] == ids + ids
    assert len(ids) in (3, 4)


@pytest.mark.parametrize("base", [0, 1, 6, 7])
@pytest.mark.parametrize("every", [1, 2, 7, 100])
def test_traced_offsets(base: int, every: int) -> None:
    for first in range(5):
        expected = [offset for offset in range(first, 40) if (base + offset) % every == 0]
        assert list(traced(first, 40, base, every)) == expected
    assert list(traced(5, 5, base, every)) == []


def test_open_deliveries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_spans, "OPEN_MAX", 3)
    it = Traced()
    reader = Reader(it.world, it.channel, 10)
    it.world.publish(b"a", b"b", b"c", b"d", b"e")
    reader.take()
    reader.finish(0, 1, 2, 3, 4)
    assert [offset for offset, *_ in it.outcomes()] == [2, 3, 4]


def test_a_clock_set_back_ends_no_span_before_its_start() -> None:
    it = Traced()
    reader = Reader(it.world, it.channel, 10)
    it.world.publish(b"a")
    reader.take()
    it.world.clock.set_wall(it.world.clock.wall_ns() - SECOND)
    reader.finish(0)
    delivered = it.take()[-1]
    assert delivered.start_ns == delivered.end_ns

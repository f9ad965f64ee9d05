"""Looking at messages: pages, ranges, runs, and views of batches of another dialect."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from penstock.broker import dialects
from penstock.broker.browse import PageEndError, PageReader, State, StateRange, newest, oldest
from penstock.broker.channels.channel import Channel
from penstock.broker.dialects import Views, bodies, frames, nsq_raw, nsq_view
from penstock.broker.retrieval import retrieve
from penstock.broker.runs import runs
from penstock.core.units import HOUR
from penstock.nsq.protocol.translation import batch_of as nsq_batch_of
from penstock.storage.batch import Batch, Dialect
from tests.unit.broker import conftest
from tests.unit.broker.conftest import World, log_of


@pytest.fixture
def channel(world: World) -> Channel:
    """0 finished, 1 in flight, 2 requeued, 3 and 4 deferred, 5 emptied, 6 to 8 waiting, 9 spent."""
    channel = world.channel()
    channel.limit_attempts(7, "t.dead")
    world.fill(3)
    reader = conftest.Reader(world, channel, 3)
    reader.take()
    reader.finish(0)
    reader.ready(0)
    reader.requeue(2)
    world.publish(b"m3", b"m4", delay=HOUR)
    world.topic.pause()
    world.fill(1)
    world.topic.empty()
    world.topic.unpause()
    world.fill(4)
    channel.state.skips.add(9, 10)
    channel.state.spent.add(9, 10, 7)
    return channel


def spread(stretches: list[StateRange]) -> list[tuple[int, State, int]]:
    return [(o, s.state, s.attempts) for s in stretches for o in range(s.first, s.next)]


ALL = [
    (1, State.IN_FLIGHT, 1),
    (2, State.REQUEUED, 1),
    (3, State.DEFERRED, 0),
    (4, State.DEFERRED, 0),
    (6, State.WAITING, 0),
    (7, State.WAITING, 0),
    (8, State.WAITING, 0),
    (9, State.SPENT, 7),
]


@pytest.mark.parametrize("low", range(11))
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 100])
def test_the_oldest_from_an_offset_on(channel: Channel, low: int, limit: int) -> None:
    expected = [each for each in ALL if each[0] >= low][:limit]
    assert spread(oldest(channel.state, low, limit)) == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 8, 100])
def test_the_newest(channel: Channel, limit: int) -> None:
    assert spread(newest(channel.state, limit)) == ALL[-limit:]


def test_deferred_ones_have_a_deadline(world: World, channel: Channel) -> None:
    (stretch,) = oldest(channel.state, 3, 1)
    assert stretch.deadline == world.now + HOUR


def test_nothing_is_taken(world: World, channel: Channel) -> None:
    before = channel.progress.record(everything=True)
    oldest(channel.state, 0, 100)
    newest(channel.state, 100)
    after = channel.progress.record(everything=True)
    assert msgspec.structs.replace(after, serial=before.serial) == before


def test_an_empty_channel(world: World) -> None:
    assert oldest(world.channel().state, 0, 10) == newest(world.channel().state, 10) == []


def test_a_reader_finds_batches_in_any_order(world: World) -> None:
    world = World(memory=2)
    world.fill(20)
    reader = PageReader(log_of(world.topic))
    for offset in (19, 3, 0, 7, 19):
        batch = reader.batch(offset)
        assert batch is not None
        assert bytes(batch.frames).endswith(b"m%d" % offset)
    assert reader.batch(20) is None


def test_a_reader_gives_up_after_so_many_places(world: World) -> None:
    world = World(memory=2, file_bytes=300)
    world.fill(40)
    reader = PageReader(log_of(world.topic), places_max=2)
    reader.batch(0)
    reader.batch(10)
    assert reader.batch(0) is not None
    with pytest.raises(PageEndError):
        reader.batch(20)


def test_ranges_across_batches(world: World) -> None:
    world.publish(b"a", b"b", b"c")
    world.publish(b"d", b"e")
    lost: list[int] = []
    parts = [(first, next_) for _, first, next_ in retrieve(log_of(world.topic), 1, 5, lost.append)]
    assert parts == [(1, 3), (3, 5)]
    assert lost == []


def test_what_is_not_there_is_told(world: World) -> None:
    world.publish(b"a", b"b")
    lost: list[int] = []
    log = log_of(world.topic)
    assert [(first, next_) for _, first, next_ in retrieve(log, 1, 40, lost.append)] == [(1, 2)]
    assert sum(lost) == 38


CASES: list[tuple[list[int], list[tuple[int, int]]]] = [
    ([], []),
    ([7], [(7, 8)]),
    ([3, 4, 5, 6], [(3, 7)]),
    ([6, 5, 4], [(4, 7)]),
    ([1, 2, 9, 4, 3], [(1, 5), (9, 10)]),
    ([1, 3, 2, 4], [(1, 5)]),  # right first, last and count, wrong order
    ([1, 1, 4, 4, 5], [(1, 2), (1, 2), (4, 5), (4, 6)]),
    ([1, 1, 1, 4], [(1, 2), (1, 2), (1, 2), (4, 5)]),  # first, last and count of a run
    ([5, 5], [(5, 6), (5, 6)]),
    ([-3, -2, 0], [(-3, -1), (0, 1)]),
]


@pytest.mark.parametrize(("offsets", "expected"), CASES, ids=str)
def test_runs(offsets: list[int], expected: list[tuple[int, int]]) -> None:
    found = runs(np.array(offsets, np.int64))
    assert found == expected
    assert all(type(end) is int for span in found for end in span), "no numpy numbers get out"
    assert runs(offsets) == expected


def test_a_few_may_be_of_any_size() -> None:
    """Whatever 16 hex digits a client sends, less the base of a queue."""
    far = (1 << 64) - 1
    assert runs([far, -far]) == [(-far, 1 - far), (far, far + 1)]


def test_a_long_run_is_one_range() -> None:
    assert runs(np.arange(10**6, 2 * 10**6)) == [(10**6, 2 * 10**6)]


# --- Views of batches of another dialect ---------------------------------------------------------


def batch(first: int, *given: bytes, dialect: int = Dialect.ROCKETMQ) -> Batch:
    return Batch.build(first, first, 5, len(given), len(given[0]), given, dialect=dialect)


@pytest.fixture
def upper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A dialect whose bodies are its frames in capitals; what was loaded of it."""
    loaded: list[str] = []

    def load() -> dialects.Reader:
        loaded.append("reader")
        return lambda batch, first, next_: [each.upper() for each in frames(batch, first, next_)]

    def load_writer() -> dialects.Writer:
        loaded.append("writer")
        return nsq_batch_of

    monkeypatch.setattr(dialects, "_reader_loaders", {})
    monkeypatch.setattr(dialects, "_readers", {})
    monkeypatch.setattr(dialects, "_nsq_writer_loaders", [])
    dialects.register_reader(Dialect.ROCKETMQ, load)
    dialects.register_nsq_writer(load_writer)
    return loaded


def test_ones_own_batches_are_left_alone(upper: list[str]) -> None:
    own = batch(0, b"aa", b"bb", dialect=Dialect.NSQ)
    assert nsq_view(own) is own
    assert nsq_raw(own.raw) is own.raw
    assert upper == []


def test_a_view_is_made_once(upper: list[str]) -> None:
    given = batch(7, b"aa", b"bb")
    view = nsq_view(given)
    assert (view.dialect, view.first_offset, view.count) == (Dialect.NSQ, 7, 2)
    assert [frame[34:] for frame in frames(view, 7, 9)] == [b"AA", b"BB"]
    again = Batch.parse(bytes(given.raw))  # as it comes from the disk
    assert nsq_view(again) is view
    assert bytes(nsq_raw(given.raw)) == bytes(view.raw)
    assert upper == ["writer", "reader"]


def test_bodies_of_a_part(upper: list[str]) -> None:
    given = batch(7, b"aa", b"bb", b"cc")
    assert bodies(given, 8, 9) == [b"BB"]
    assert bodies(given, 7, 10) == [b"AA", b"BB", b"CC"]
    assert upper == ["reader"]


def test_a_dialect_that_nobody_knows(upper: list[str]) -> None:
    assert bodies(batch(7, b"aa", b"bb", dialect=9), 7, 9) == [b"aa", b"bb"]


def test_a_dialect_whose_messages_state_their_queue_offset_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Damage to the index of queues then costs no queue offset."""
    monkeypatch.setattr(dialects, "_stated_loaders", {})
    dialects.register_stated(Dialect.ROCKETMQ, lambda: lambda batch: batch.first_offset + 40)
    assert dialects.queue_offset(batch(7, b"aa")) == 47
    assert dialects.queue_offset(batch(7, b"aa", dialect=Dialect.NSQ)) is None


def test_views_have_a_bound() -> None:
    made: list[int] = []

    def translate(source: Batch) -> Batch:
        made.append(source.first_offset)
        return nsq_batch_of(source, frames(source, source.first_offset, source.next_offset))

    size = len(translate(batch(0, b"x" * 100)).raw)
    views = Views(translate, nbytes_max=2 * size)
    made.clear()
    for first in (1, 2, 1, 3, 1, 2):
        views.of(batch(first, b"x" * 100))
    assert made == [1, 2, 3, 2]  # 2 was used longest ago when 3 came
    assert (len(views), views.nbytes) == (2, 2 * size)
    views.of(batch(9, b"x" * 1000))
    assert len(views) == 1  # too large by itself, and still served

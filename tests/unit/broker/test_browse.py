from __future__ import annotations

import msgspec
import pytest

from penstock.broker.browse import PageEndError, PageReader, State, Stretch, newest, oldest
from penstock.broker.channels.channel import Channel
from penstock.core.units import HOUR
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


def spread(stretches: list[Stretch]) -> list[tuple[int, State, int]]:
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

"""How much topics and channels hold."""

from __future__ import annotations

import pytest

from penstock.broker.publish.bounds import Bounds
from penstock.broker.publish.fill import Fill, fill_of, fill_waiting
from tests.unit.broker.conftest import Reader, World


def test_the_fullest_channel_counts_until_it_has_finished(world: World) -> None:
    channel = world.channel()
    world.fill(4)
    assert fill_of(world.topic).messages == 4
    assert fill_waiting(world.topic).messages == 0
    assert fill_of(world.topic).nbytes == world.topic.log.nbytes
    reader = Reader(world, channel, 3)
    assert len(reader.take()) == 3
    assert fill_of(world.topic).messages == 4, "in flight is not finished"
    reader.finish(0, 1)
    assert fill_of(world.topic).messages == 2
    assert 0 < fill_of(world.topic).nbytes < world.topic.log.nbytes


@pytest.mark.parametrize(
    ("fill", "bounds", "surplus"),
    [
        (Fill(10, 1000), Bounds(10), 0),
        (Fill(12, 1000), Bounds(10), 2),
        (Fill(10, 1000), Bounds(0, 1000), 0),
        (Fill(10, 1000), Bounds(0, 901), 1),
        (Fill(10, 1000), Bounds(9, 500), 5),
        (Fill(10, 1000), Bounds(3, 900), 7),
        (Fill(0, 0), Bounds(1, 1), 0),
    ],
)
def test_surplus(fill: Fill, bounds: Bounds, surplus: int) -> None:
    assert fill.surplus(bounds) == surplus

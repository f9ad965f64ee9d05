from __future__ import annotations

from penstock.broker.retrieval import retrieve
from tests.unit.broker.conftest import World, log_of


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

"""Observers of what is appended: told of records that got their places, and of new batches."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.publish.records import PlacedRecords
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from tests.unit.broker.conftest import World, log_of


class Observer:
    """Notes the topic and the end of what was appended."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def placed(self, records: Sequence[tuple[PlacedRecords, int]], timestamp_ns: int) -> None:
        raise AssertionError("NSQ's records have no place")

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.told.append((topic, batches[-1].next_offset))


def test_it_is_told_once_for_all_that_a_sync_makes_visible() -> None:
    world, observer = World(), Observer()
    world.log_options.durability = Durability.FSYNC
    topic = world.topic  # made before somebody observes the broker
    world.broker.observe(observer)
    world.publish(b"a")
    world.publish(b"b", b"c")
    assert observer.told == []
    job = log_of(topic).begin_sync()
    assert job is not None
    job.run()
    topic.end_sync(None)
    assert observer.told == [("t", 3)]


def test_every_observer_is_told_of_every_topic() -> None:
    world, observers = World(), (Observer(), Observer())
    for each in observers:
        world.broker.observe(each)
    world.publish(b"a", b"b")
    world.publish(b"c", topic=world.broker.topic("later"))
    assert [each.told for each in observers] == [[("t", 2), ("later", 1)]] * 2

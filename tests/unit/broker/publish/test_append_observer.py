"""Observers of what is appended: told of records that got their places, and of new batches."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.publish.records import PlacedRecords, Records
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import Batch, Dialect
from penstock.storage.durability import Durability
from tests.unit.broker.conftest import World, log_of
from tests.unit.broker.publish.test_batching import Placed


class Observer:
    """Notes the topic and the end of what was appended."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def placed(self, records: Sequence[tuple[PlacedRecords, int]], timestamp_ns: int) -> None:
        raise AssertionError("NSQ's records have no place")

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.told.append((topic, batches[-1].next_offset))


def publish(topic: Topic, records: Records, queue: int | None = None) -> None:
    """Publish with a commit of its own."""
    told: list[StorageError | None] = []
    topic.stage(records, 0, told.append, queue)
    (done,), error = topic.commit()
    assert error is None
    done(error)


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


def test_a_message_that_is_published_by_itself_has_its_place_and_is_told() -> None:
    world, observer = World(), Observer()
    world.broker.observe(observer)
    topic = world.topic
    world.broker.split(topic, 4, 2)
    for number, queue in enumerate((3, 1, 3)):
        record = Placed()
        publish(topic, record, queue)
        batch = topic.log.batch_at(number)
        assert batch is not None
        assert (batch.queue, batch.dialect) == (queue, Dialect.ROCKETMQ)
        assert bytes(batch.frames) == b"%08d" % record.queue_offset
    publish(topic, Bodies.single(b"to the first of two"))
    publish(topic, Bodies.single(b"to the second"))
    assert [topic.queues.end(queue) for queue in range(4)] == [1, 2, 0, 2]
    assert observer.told == [("t", end) for end in range(1, 6)]


def test_every_observer_is_told_of_every_topic() -> None:
    world, observers = World(), (Observer(), Observer())
    for each in observers:
        world.broker.observe(each)
    world.publish(b"a", b"b")
    world.publish(b"c", topic=world.broker.topic("later"))
    assert [each.told for each in observers] == [[("t", 2), ("later", 1)]] * 2

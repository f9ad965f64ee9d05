"""A commit on its way into the log; what it leaves behind is tested with the writers."""

from __future__ import annotations

import pytest

from penstock.broker.publish.commit import Spot, unplaced
from penstock.core.errors import DiskFullError, ExitingError
from penstock.core.units import SECOND
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import Batch
from tests.unit.broker.conftest import World, log_of


def test_an_unplaced_batch_has_its_messages_and_delay_and_no_place() -> None:
    for bodies in ([b"a", b"b"], [b"a", b"bb"]):
        batch = unplaced(Bodies.from_list(bodies), SECOND)
        assert (batch.first_offset, batch.first_id, batch.timestamp_ns) == (0, 0, 0)
        assert (batch.count, batch.delay_ns) == (2, SECOND)
        batch.verify()


def test_ids_go_on_with_each_batch(world: World) -> None:
    made = world.topic.begin_commit("w", 0, 0)
    base = log_of(world.topic).id_base
    assert made.next_id == base
    made.add(unplaced(Bodies.from_list([b"a", b"b"]), 0), stamped)
    assert made.next_id == base + 2
    made.add(unplaced(Bodies.single(b"c"), 0), stamped)
    assert made.next_id == base + 3


def test_batches_of_a_commit_take_turns_over_the_queues(world: World) -> None:
    topic = world.topic
    topic.spread = 3
    made = topic.begin_commit("w", 0, 0)
    for _ in range(4):
        made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    made.finish()
    first, *others = [batch.queue for batch in made.written.batches]
    assert others == [(first + turn) % 3 for turn in (1, 2, 3)]


def test_batches_of_a_shard_stay_in_their_queue_and_know_their_offsets(world: World) -> None:
    topic = world.topic
    topic.spread = 3
    made = topic.begin_commit("w", 0, 0)
    spots = []

    def note(batch: Batch, spot: Spot) -> int:
        spots.append((spot.queue, spot.queue_offset))
        return 5

    for shard in (1, 2, 1, 5, 3, 1):
        assert made.add(unplaced(Bodies.from_list([b"a", b"b"]), 0, shard), note) == 5
    assert spots == [(0, 0), (1, 0), (0, 2), (1, 2), (2, 0), (0, 4)]
    made.finish()
    assert [batch.queue for batch in made.written.batches] == [0, 1, 0, 1, 2, 0]


def test_a_commit_that_ends_when_its_topic_does_is_cut_off(world: World) -> None:
    topic = world.topic
    made = topic.begin_commit("w", 0, 0)
    made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    made.finish()
    topic.exiting = True
    with pytest.raises(ExitingError):
        topic.end_commit(made, 1)
    with pytest.raises(ExitingError):
        topic.begin_commit("w", 0, 0)
    assert log_of(topic).segments[-1].file.read(0, 100) == b""


def test_a_disk_that_fills_up_leaves_nothing_of_a_commit(world: World) -> None:
    made = world.topic.begin_commit("w", 0, 0)
    made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    world.disk.fill(10)
    with pytest.raises(DiskFullError):
        made.finish()
    made.cancel()
    assert log_of(world.topic).segments[-1].file.read(0, 100) == b""

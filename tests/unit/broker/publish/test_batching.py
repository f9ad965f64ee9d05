"""What is published in one commit becomes batches, each kind of record its own; who is told."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from penstock.broker.publish.batching import BATCH_BYTES_MAX, ONE_BYTES_MAX, Staged, batches_of
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import Batch, Dialect, Positions, iter_batches
from penstock.storage.durability import Durability
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues.one_queue import OneQueue
from tests.unit.broker.conftest import BODY_AT, World, ignore, log_of


@dataclass
class Placed:
    """Messages whose frames state their queue offset, as RocketMQ's do; with a note they differ."""

    count: int = 1
    note: bytes = b""
    queue_offset: int = -1
    dialect: int = Dialect.ROCKETMQ

    @property
    def nbytes(self) -> int:
        return self.count

    @property
    def stride(self) -> int:
        return 0 if self.note else 8

    def encode(self, first_id: int, timestamp_ns: int) -> tuple[bytes, Positions | None]:
        frames = [b"%08d" % (self.queue_offset + number) for number in range(self.count)]
        table = np.arange(self.count + 1, dtype=np.uint32) * 8
        return b"".join(frames), table if self.note else None


BASE = 7 << 53
WALL = 1_700_000_000_000_000_000
_ID = slice(18, 34)


def staged(*sizes: int, delay: int = 0) -> Staged:
    """One publish of messages of these sizes."""
    bodies = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    return Staged(Bodies.from_list(bodies), delay, ignore)


def batches(*publishes: Staged, first_offset: int = 0) -> list[Batch]:
    return batches_of(list(publishes), OneQueue(MemoryLog(BASE)), first_offset, BASE, WALL)


def bodies(batch: Batch) -> list[bytes]:
    return [
        frame(batch, offset)[BODY_AT:] for offset in range(batch.first_offset, batch.next_offset)
    ]


def frame(batch: Batch, offset: int) -> bytes:
    return bytes(batch.slice(offset, offset + 1))


def counts(*publishes: Staged) -> list[int]:
    """Messages of each batch."""
    return [batch.count for batch in batches(*publishes)]


def test_nothing_staged() -> None:
    assert batches() == []


def test_a_batch_has_the_offset_id_time_and_delay_of_its_publishes() -> None:
    first, second = batches(staged(3, 4), staged(5, delay=9), first_offset=100)
    assert (first.first_offset, first.first_id, first.count) == (100, BASE + 100, 2)
    assert (second.first_offset, second.first_id, second.count) == (102, BASE + 102, 1)
    assert (first.timestamp_ns, second.timestamp_ns) == (WALL, WALL)
    assert (first.delay_ns, second.delay_ns) == (0, 9)


@pytest.mark.parametrize("size", [1, ONE_BYTES_MAX])
def test_a_single_is_a_batch_by_itself_whatever_its_size(size: int) -> None:
    first, second = batches(staged(size), staged(1, delay=1), first_offset=4)
    assert bodies(first) == [b"A" * size]
    for batch in (first, second):
        (parsed,) = iter_batches(bytes(batch.raw))
        assert (parsed.count, parsed.stride) == (1, len(batch.frames))


def test_singles_of_one_size_share_a_batch_with_a_stride() -> None:
    (batch,) = batches(staged(3), staged(3), staged(3))
    assert (batch.count, batch.stride, batch.table) == (3, BODY_AT + 3, None)


def test_singles_of_mixed_sizes_share_a_batch_with_a_table() -> None:
    (batch,) = batches(staged(1), staged(0), staged(7), first_offset=5)
    assert (batch.count, batch.stride) == (3, 0)
    assert batch.table is not None
    assert bodies(batch) == [b"A", b"", b"A" * 7]
    assert [frame(batch, o)[_ID] for o in (5, 6, 7)] == [b"%016x" % (BASE + o) for o in (5, 6, 7)]


def test_neighbours_of_one_stride_share_a_batch() -> None:
    (batch,) = batches(staged(4, 4), staged(4, 4, 4))
    assert (batch.count, batch.stride) == (5, BODY_AT + 4)
    assert bodies(batch) == [b"AAAA", b"BBBB", b"AAAA", b"BBBB", b"CCCC"]
    assert [frame(batch, o)[_ID] for o in range(5)] == [b"%016x" % (BASE + o) for o in range(5)]


def test_publishes_of_different_strides_do_not_share() -> None:
    assert counts(staged(4, 4), staged(5, 5), staged(5, 5)) == [2, 4]


def test_publishes_of_mixed_sizes_stand_alone() -> None:
    assert counts(staged(1, 2), staged(1, 2)) == [2, 2]
    (batch,) = batches(staged(1, 2))
    assert bodies(batch) == [b"A", b"BB"]


def test_singles_and_publishes_of_several_do_not_share() -> None:
    assert counts(staged(4), staged(4, 4), staged(4)) == [1, 2, 1]


def test_delays_stay_apart() -> None:
    publishes = [staged(4, delay=delay) for delay in (0, 0, 5, 5, 0, 6)]
    assert [(b.count, b.delay_ns) for b in batches(*publishes)] == [(2, 0), (2, 5), (1, 0), (1, 6)]


@pytest.mark.parametrize("messages", [1, 2])
def test_a_batch_that_is_large_enough_is_joined_by_nobody(messages: int) -> None:
    size = BATCH_BYTES_MAX // 4 // messages
    publishes = [staged(*[size] * messages) for _ in range(9)]
    assert counts(*publishes) == [4 * messages, 4 * messages, messages]


def test_a_publish_beyond_the_cap_is_one_batch() -> None:
    size = BATCH_BYTES_MAX + 1
    assert counts(staged(size, size), staged(size, size)) == [2, 2]
    assert counts(staged(size), staged(1), staged(1)) == [1, 2]


def test_offsets_are_dense_and_the_bytes_are_batches() -> None:
    publishes = [staged(1), staged(2), staged(3, 3), staged(3, 3), staged(1, 2), staged(9, delay=1)]
    made = batches(*publishes, first_offset=40)
    parsed = list(iter_batches(b"".join(batch.raw for batch in made)))  # verifies checksums
    assert [batch.first_offset for batch in parsed] == [40, 42, 46, 48]
    assert [batch.next_offset for batch in parsed] == [42, 46, 48, 49]
    assert [bodies(batch) for batch in parsed] == [bodies(batch) for batch in made]
    assert [bodies(batch) for batch in parsed] == [
        [b"A", b"AA"], [b"AAA", b"BBB", b"AAA", b"BBB"], [b"A", b"BB"], [b"A" * 9],
    ]  # fmt: skip


def test_records_are_told_their_places_before_they_are_encoded() -> None:
    """Else consumers would read a queue offset in a message that is not the message's."""
    records = [Placed(2), Placed(1), Placed(3), Placed(1)]
    queues = (1, 1, 0, 1)
    publishes = [
        Staged(each, 0, ignore, queue) for each, queue in zip(records, queues, strict=True)
    ]
    ahead = {1: 40}
    made = batches_of(publishes, OneQueue(MemoryLog(BASE)), 100, BASE, WALL, ahead)
    assert [(batch.queue, int(frame(batch, batch.first_offset))) for batch in made] == [
        (1, 40), (1, 42), (0, 0), (1, 43)
    ]  # fmt: skip
    assert ahead == {0: 3, 1: 44}


def test_dialects_do_not_share() -> None:
    publishes = [staged(3), Staged(Placed(), 0, ignore), Staged(Placed(), 0, ignore), staged(3)]
    assert [(b.count, b.dialect) for b in batches(*publishes)] == [
        (1, Dialect.NSQ), (2, Dialect.ROCKETMQ), (1, Dialect.NSQ)
    ]  # fmt: skip


def test_a_publish_with_a_note_stands_alone() -> None:
    """The note is about its messages, dead letters say, and no others."""
    publishes = [Staged(Placed(note=note), 0, ignore) for note in (b"", b"n", b"m", b"", b"")]
    assert [(b.count, bytes(b.note)) for b in batches(*publishes)] == [
        (1, b""), (1, b"n"), (1, b"m"), (2, b"")
    ]  # fmt: skip


# --- What every kind of publish must keep, for a topic to make batches of it ---------------------


def mpub(*bodies: bytes) -> bytes:
    parts = [struct.pack(">i", len(body)) + body for body in bodies]
    return struct.pack(">i", len(bodies)) + b"".join(parts)


KINDS: dict[str, tuple[Records, list[bytes]]] = {
    "single": (Bodies.single(b"one"), [b"one"]),
    "empty": (Bodies.single(b""), [b""]),
    "equal": (Bodies.from_list([b"aa", b"bb"]), [b"aa", b"bb"]),
    "many equal": (Bodies.from_list([b"xyz"] * 40), [b"xyz"] * 40),
    "mixed": (Bodies.from_list([b"a", b"bb", b""]), [b"a", b"bb", b""]),
    "many mixed": (
        Bodies.from_list([b"x" * size for size in range(40)]),
        [b"x" * size for size in range(40)],
    ),
    "mpub": (Bodies.from_mpub(mpub(b"aa", b"bb", b"cc"), 100), [b"aa", b"bb", b"cc"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_the_bodies(kind: str) -> None:
    records, bodies = KINDS[kind]
    sizes = {len(body) for body in bodies}
    assert records.count == len(bodies)
    assert records.nbytes == sum(map(len, bodies))
    assert records.stride == (BODY_AT + sizes.pop() if len(sizes) == 1 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_positions_fit_the_numbers(kind: str) -> None:
    records, _ = KINDS[kind]
    frames, positions = records.encode(1000, 5)
    assert len(frames) == records.nbytes + BODY_AT * records.count
    if records.stride:
        assert positions is None
    else:
        assert positions is not None
        assert len(positions) == records.count + 1
        assert (int(positions[0]), int(positions[-1])) == (0, len(frames))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_them_holds_their_bodies_and_ids(kind: str) -> None:
    records, bodies = KINDS[kind]
    (batch,) = batches_of([Staged(records, 0, ignore)], OneQueue(MemoryLog(1000)), 3, 1000, 5)
    frames = [bytes(batch.slice(offset, offset + 1)) for offset in range(3, batch.next_offset)]
    assert [frame[BODY_AT:] for frame in frames] == bodies
    assert [int(frame[18:BODY_AT], 16) for frame in frames] == list(range(1003, 1003 + len(bodies)))


# --- Observers of what is appended ----------------------------------------------------------------


class Observer:
    """Notes the topic and the end of what was appended."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

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

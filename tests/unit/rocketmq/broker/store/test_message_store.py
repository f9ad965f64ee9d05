from __future__ import annotations

import asyncio

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.core.errors import DiskFullError
from penstock.core.units import SECOND
from penstock.node.registry import Observer
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.messages.message import decode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues import queue_index
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock

BORN = ids.Host(bytes((10, 0, 0, 1)), 50000)


@pytest.fixture(autouse=True)
def topics(controller: Controller) -> None:
    controller.topics.put(TopicConfig("four", 4, 4), 1)
    controller.topics.put(TopicConfig("one", 1, 1), 1)


def draft(topic: str, queue: int, body: bytes, **changes: object) -> Draft:
    return Draft(topic, queue, body, "KEYS\x01k\x02", born_ms=5, born_host=BORN, **changes)  # type: ignore[arg-type]


def put(controller: Controller, *drafts: Draft) -> list[Placed]:
    found: list[Placed] = []

    def done(placed: list[Placed], error: Exception | None) -> None:
        assert error is None
        found.extend(placed)

    controller.store.put(drafts, done)
    return found


@pytest.mark.parametrize(("topic", "queues"), [("one", 1), ("four", 4)])
def test_offsets_are_dense_in_each_queue(controller: Controller, topic: str, queues: int) -> None:
    for number in range(12):
        queue = number % queues
        (placed,) = put(controller, draft(topic, queue, b"%d" % number))
        assert placed.queue_offset == number // queues
    for queue in range(queues):
        assert controller.store.bounds(topic, queue) == (0, 12 // queues)
        found = controller.store.read(topic, queue, 0, 99, 1 << 20)
        messages = [decode(bytes(each.frame))[0] for each in found]
        assert [m.queue_offset for m in messages] == [each.queue_offset for each in found]
        assert [m.body for m in messages] == [b"%d" % n for n in range(queue, 12, queues)]
        assert {m.queue for m in messages} == {queue}
    assert controller.store.bounds(topic, 9) == (0, 0)
    assert controller.store.bounds("unknown", 0) == (0, 0)
    assert controller.store.read("unknown", 0, 0, 9, 999) == []


def test_a_batch_is_several_messages(controller: Controller, clock: FakeClock) -> None:
    put(controller, draft("four", 2, b"before"))
    places = put(controller, *(draft("four", 2, b"x" * size) for size in (1, 5, 5)))
    assert [each.queue_offset for each in places] == [1, 2, 3]
    for size, place in zip((1, 5, 5), places, strict=True):
        message = controller.store.message(place.physical_offset)
        assert message is not None
        assert (message.body, message.queue_offset) == (b"x" * size, place.queue_offset)
        assert message.offset_id == place.message_id
        assert message.physical_offset == place.physical_offset
        assert message.store_ms == place.store_ms == clock.wall_ns() // 1_000_000
        assert (message.born_ms, message.born_host) == (5, BORN)
        assert ids.OffsetId.parse(place.message_id).offset == place.physical_offset


def test_a_message_is_found_by_its_physical_offset_alone(controller: Controller) -> None:
    (one,) = put(controller, draft("one", 0, b"in one"))
    (four,) = put(controller, draft("four", 3, b"in four"))
    assert controller.store.message(one.physical_offset).body == b"in one"  # type: ignore[union-attr]
    assert controller.store.message(four.physical_offset).body == b"in four"  # type: ignore[union-attr]
    for nowhere in (0, 1 << 45, one.physical_offset + 1, -1):
        assert controller.store.frame(nowhere) is None


def test_a_topic_that_is_made_again_has_other_physical_offsets(controller: Controller) -> None:
    (before,) = put(controller, draft("one", 0, b"old"))
    asyncio.run(controller.store.delete("one"))
    (after,) = put(controller, draft("one", 0, b"new"))
    assert after.queue_offset == 0
    assert after.physical_offset != before.physical_offset
    assert controller.store.frame(before.physical_offset) is None


def test_offsets_by_time(controller: Controller, clock: FakeClock) -> None:
    times = []
    for number in range(6):
        times.append(put(controller, draft("four", number % 2, b"x"))[0].store_ms)
        clock.advance(10_000_000)
    assert [controller.store.offset_at_time("four", 0, times[n]) for n in (0, 1, 2, 4, 5)] == [
        0, 1, 1, 2, 3
    ]  # fmt: skip
    assert controller.store.offset_at_time("four", 0, 0) == 0
    assert controller.store.offset_at_time("four", 1, times[-1] + 1) == 3
    assert controller.store.offset_at_time("unknown", 0, 5) == 0


def test_times_and_physical_bounds(controller: Controller, clock: FakeClock) -> None:
    assert controller.store.physical_bounds() == (0, 0)
    (first,) = put(controller, draft("one", 0, b"1"))
    stored_ms = controller.now_ms
    clock.advance(SECOND)
    *_, last = put(controller, draft("four", 3, b"2"), draft("four", 3, b"3"))
    assert controller.store.physical_bounds() == (first.physical_offset, last.physical_offset + 1)
    assert controller.store.stored_ms("one", 0, 0) == stored_ms
    assert controller.store.stored_ms("four", 3, 1) == stored_ms + 1000
    for topic, queue, offset in (("one", 0, 1), ("one", 0, -1), ("four", 0, 0), ("none", 0, 0)):
        assert controller.store.stored_ms(topic, queue, offset) is None


@pytest.mark.parametrize("topic", ["one", "four"])
def test_what_is_gone_is_left_out(
    controller: Controller, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr(queue_index, "CHUNK_MESSAGES", 4)
    found = controller.store.topic(topic)
    assert isinstance(found.log, Log)
    found.log.options = LogOptions(max_bytes_per_file=1000)
    found.retention = Retention(time_ns=1)
    for number in range(33):
        put(controller, draft(topic, 0, b"%d" % number))
    clock.advance(10)
    controller.node.broker.trim()
    low, high = controller.store.bounds(topic, 0)
    assert 20 < low < high == 33
    assert controller.store.message_at(topic, 0, low - 1) is None
    assert controller.store.message_at(topic, 0, 0) is None
    for offset, count in ((0, 99), (low, 99), (low - 2, 3)):
        read = controller.store.read(topic, 0, offset, count, 1 << 20)
        assert [each.queue_offset for each in read] == list(range(low, min(offset + count, high)))
        assert [decode(bytes(each.frame))[0].queue_offset for each in read] == [
            each.queue_offset for each in read
        ]


def test_messages_of_nsq_are_messages_too(controller: Controller) -> None:
    register_dialects()
    topic = controller.store.topic("four")
    put(controller, draft("four", 0, b"mine"))
    for body in (b"a", b"b", b"c", b"d"):
        topic.stage(Bodies.from_list([body, body * 2]), 0, lambda error: None)
        topic.commit()
    bodies = []
    for queue in range(4):
        for found in controller.store.read("four", queue, 0, 9, 1 << 20):
            message, _ = decode(bytes(found.frame))
            assert (message.queue, message.queue_offset) == (queue, found.queue_offset)
            again = controller.store.message(message.physical_offset)
            assert again == message
            bodies.append(message.body)
    assert sorted(bodies) == [b"a", b"aa", b"b", b"bb", b"c", b"cc", b"d", b"dd", b"mine"]


def test_listeners_hear_of_each_commit(controller: Controller) -> None:
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    controller.store.on_append.append(
        lambda topic, batches: heard.append((topic, [(b.queue, b.count) for b in batches]))
    )
    put(controller, draft("four", 1, b"x"))
    put(controller, draft("four", 1, b"x"), draft("four", 1, b"y"))
    assert heard == [("four", [(1, 1)]), ("four", [(1, 2)])]


def test_reads_have_their_bounds(controller: Controller) -> None:
    put(controller, *(draft("four", 0, b"x" * 100) for _ in range(10)))
    assert len(controller.store.read("four", 0, 0, 3, 1 << 20)) == 3
    assert len(controller.store.read("four", 0, 0, 99, 500)) == 2
    assert len(controller.store.read("four", 0, 0, 99, 1)) == 1
    assert [each.queue_offset for each in controller.store.read("four", 0, 8, 99, 1 << 20)] == [
        8,
        9,
    ]


class Deletions(Observer):
    """The store is told of deleted topics as a daemon tells it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def topic_deleted(self, name: str) -> None:
        self._controller.store.forget(name)


def test_all_are_told_of_a_deletion_though_one_of_them_cannot_write_it_down(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the serial of the deleted topic, its ids would lead to messages of the next one."""

    def save(_name: str) -> None:
        raise DiskFullError("no space left on device")

    put(controller, draft("one", 0, b"x"))
    controller.pops.ordered.enter(("one", "G"), 1, from_end=False)
    told: list[str] = []
    controller.store.deleted.append(told.append)
    monkeypatch.setattr(controller.state, "save", save)
    with pytest.raises(DiskFullError):
        controller.store.forget("one")
    assert told == ["one"]
    assert not controller.store.serials.has("one")


async def test_a_topic_that_is_made_again_while_it_is_deleted_keeps_its_own_serial(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = controller.node.registry
    registry.observe(Deletions(controller))
    (old,) = put(controller, draft("one", 0, b"old"))
    made: list[Placed] = []

    async def write() -> None:  # it takes a while, and somebody sends
        made.extend(put(controller, draft("one", 0, b"new")))

    monkeypatch.setattr(registry.topic_list, "write", write)
    await controller.store.delete("one")
    (new,) = made
    (later,) = put(controller, draft("one", 0, b"later"))
    found = [controller.store.message(each.physical_offset) for each in (old, new, later)]
    assert [each.body if each else None for each in found] == [None, b"new", b"later"]

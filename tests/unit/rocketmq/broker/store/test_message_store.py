from __future__ import annotations

import asyncio

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.core.errors import DiskFullError
from penstock.core.units import SECOND
from penstock.node.registry import Observer
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.services import Services
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
def topics(services: Services) -> None:
    services.topics.put(TopicConfig("four", 4, 4), 1)
    services.topics.put(TopicConfig("one", 1, 1), 1)


def draft(topic: str, queue: int, body: bytes, **changes: object) -> Draft:
    return Draft(topic, queue, body, "KEYS\x01k\x02", born_ms=5, born_host=BORN, **changes)  # type: ignore[arg-type]


def put(services: Services, *drafts: Draft) -> list[Placed]:
    found: list[Placed] = []

    def done(placed: list[Placed], error: Exception | None) -> None:
        assert error is None
        found.extend(placed)

    services.store.put(drafts, done)
    return found


@pytest.mark.parametrize(("topic", "queues"), [("one", 1), ("four", 4)])
def test_offsets_are_dense_in_each_queue(services: Services, topic: str, queues: int) -> None:
    for number in range(12):
        queue = number % queues
        (placed,) = put(services, draft(topic, queue, b"%d" % number))
        assert placed.queue_offset == number // queues
    for queue in range(queues):
        assert services.store.bounds(topic, queue) == (0, 12 // queues)
        found = services.store.read(topic, queue, 0, 99, 1 << 20)
        messages = [decode(bytes(each.frame))[0] for each in found]
        assert [m.queue_offset for m in messages] == [each.queue_offset for each in found]
        assert [m.body for m in messages] == [b"%d" % n for n in range(queue, 12, queues)]
        assert {m.queue for m in messages} == {queue}
    assert services.store.bounds(topic, 9) == (0, 0)
    assert services.store.bounds("unknown", 0) == (0, 0)
    assert services.store.read("unknown", 0, 0, 9, 999) == []


def test_a_batch_is_several_messages(services: Services, clock: FakeClock) -> None:
    put(services, draft("four", 2, b"before"))
    places = put(services, *(draft("four", 2, b"x" * size) for size in (1, 5, 5)))
    assert [each.queue_offset for each in places] == [1, 2, 3]
    for size, place in zip((1, 5, 5), places, strict=True):
        message = services.store.message(place.physical_offset)
        assert message is not None
        assert (message.body, message.queue_offset) == (b"x" * size, place.queue_offset)
        assert message.offset_id == place.message_id
        assert message.physical_offset == place.physical_offset
        assert message.store_ms == place.store_ms == clock.wall_ns() // 1_000_000
        assert (message.born_ms, message.born_host) == (5, BORN)
        assert ids.OffsetId.parse(place.message_id).offset == place.physical_offset


def test_a_message_is_found_by_its_physical_offset_alone(services: Services) -> None:
    (one,) = put(services, draft("one", 0, b"in one"))
    (four,) = put(services, draft("four", 3, b"in four"))
    assert services.store.message(one.physical_offset).body == b"in one"  # type: ignore[union-attr]
    assert services.store.message(four.physical_offset).body == b"in four"  # type: ignore[union-attr]
    for nowhere in (0, 1 << 45, one.physical_offset + 1, -1):
        assert services.store.frame(nowhere) is None


def test_a_topic_that_is_made_again_has_other_physical_offsets(services: Services) -> None:
    (before,) = put(services, draft("one", 0, b"old"))
    asyncio.run(services.store.delete("one"))
    (after,) = put(services, draft("one", 0, b"new"))
    assert after.queue_offset == 0
    assert after.physical_offset != before.physical_offset
    assert services.store.frame(before.physical_offset) is None


def test_offsets_by_time(services: Services, clock: FakeClock) -> None:
    times = []
    for number in range(6):
        times.append(put(services, draft("four", number % 2, b"x"))[0].store_ms)
        clock.advance(10_000_000)
    assert [services.store.offset_at_time("four", 0, times[n]) for n in (0, 1, 2, 4, 5)] == [
        0, 1, 1, 2, 3
    ]  # fmt: skip
    assert services.store.offset_at_time("four", 0, 0) == 0
    assert services.store.offset_at_time("four", 1, times[-1] + 1) == 3
    assert services.store.offset_at_time("unknown", 0, 5) == 0


def test_times_and_physical_bounds(services: Services, clock: FakeClock) -> None:
    assert services.store.physical_bounds() == (0, 0)
    (first,) = put(services, draft("one", 0, b"1"))
    stored_ms = services.now_ms
    clock.advance(SECOND)
    *_, last = put(services, draft("four", 3, b"2"), draft("four", 3, b"3"))
    assert services.store.physical_bounds() == (first.physical_offset, last.physical_offset + 1)
    assert services.store.stored_ms("one", 0, 0) == stored_ms
    assert services.store.stored_ms("four", 3, 1) == stored_ms + 1000
    for topic, queue, offset in (("one", 0, 1), ("one", 0, -1), ("four", 0, 0), ("none", 0, 0)):
        assert services.store.stored_ms(topic, queue, offset) is None


@pytest.mark.parametrize("topic", ["one", "four"])
def test_what_is_gone_is_left_out(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr(queue_index, "CHUNK_MESSAGES", 4)
    found = services.store.topic(topic)
    assert isinstance(found.log, Log)
    found.log.options = LogOptions(max_bytes_per_file=1000)
    found.retention = Retention(time_ns=1)
    for number in range(33):
        put(services, draft(topic, 0, b"%d" % number))
    clock.advance(10)
    services.node.broker.trim()
    low, high = services.store.bounds(topic, 0)
    assert 20 < low < high == 33
    assert services.store.message_at(topic, 0, low - 1) is None
    assert services.store.message_at(topic, 0, 0) is None
    for offset, count in ((0, 99), (low, 99), (low - 2, 3)):
        read = services.store.read(topic, 0, offset, count, 1 << 20)
        assert [each.queue_offset for each in read] == list(range(low, min(offset + count, high)))
        assert [decode(bytes(each.frame))[0].queue_offset for each in read] == [
            each.queue_offset for each in read
        ]


def test_messages_of_nsq_are_messages_too(services: Services) -> None:
    register_dialects()
    topic = services.store.topic("four")
    put(services, draft("four", 0, b"mine"))
    for body in (b"a", b"b", b"c", b"d"):
        topic.stage(Bodies.from_list([body, body * 2]), 0, lambda error: None)
        topic.commit()
    bodies = []
    for queue in range(4):
        for found in services.store.read("four", queue, 0, 9, 1 << 20):
            message, _ = decode(bytes(found.frame))
            assert (message.queue, message.queue_offset) == (queue, found.queue_offset)
            again = services.store.message(message.physical_offset)
            assert again == message
            bodies.append(message.body)
    assert sorted(bodies) == [b"a", b"aa", b"b", b"bb", b"c", b"cc", b"d", b"dd", b"mine"]


def test_listeners_hear_of_each_commit(services: Services) -> None:
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    services.store.on_append.append(
        lambda topic, batches: heard.append((topic, [(b.queue, b.count) for b in batches]))
    )
    put(services, draft("four", 1, b"x"))
    put(services, draft("four", 1, b"x"), draft("four", 1, b"y"))
    assert heard == [("four", [(1, 1)]), ("four", [(1, 2)])]


def test_reads_have_their_bounds(services: Services) -> None:
    put(services, *(draft("four", 0, b"x" * 100) for _ in range(10)))
    assert len(services.store.read("four", 0, 0, 3, 1 << 20)) == 3
    assert len(services.store.read("four", 0, 0, 99, 500)) == 2
    assert len(services.store.read("four", 0, 0, 99, 1)) == 1
    assert [each.queue_offset for each in services.store.read("four", 0, 8, 99, 1 << 20)] == [
        8,
        9,
    ]


class Deletions(Observer):
    """The store is told of deleted topics as a daemon tells it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def topic_deleted(self, name: str) -> None:
        self._services.store.forget(name)


def test_all_are_told_of_a_deletion_though_one_of_them_cannot_write_it_down(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the serial of the deleted topic, its ids would lead to messages of the next one."""

    def save(_name: str) -> None:
        raise DiskFullError("no space left on device")

    put(services, draft("one", 0, b"x"))
    services.pops.ordered.enter(("one", "G"), 1, from_end=False)
    told: list[str] = []
    services.store.deleted.append(told.append)
    monkeypatch.setattr(services.files, "save", save)
    with pytest.raises(DiskFullError):
        services.store.forget("one")
    assert told == ["one"]
    assert not services.store.serials.has("one")


async def test_a_topic_that_is_made_again_while_it_is_deleted_keeps_its_own_serial(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = services.node.registry
    registry.observe(Deletions(services))
    (old,) = put(services, draft("one", 0, b"old"))
    made: list[Placed] = []

    async def write() -> None:  # it takes a while, and somebody sends
        made.extend(put(services, draft("one", 0, b"new")))

    monkeypatch.setattr(registry.topic_list, "write", write)
    await services.store.delete("one")
    (new,) = made
    (later,) = put(services, draft("one", 0, b"later"))
    found = [services.store.message(each.physical_offset) for each in (old, new, later)]
    assert [each.body if each else None for each in found] == [None, b"new", b"later"]

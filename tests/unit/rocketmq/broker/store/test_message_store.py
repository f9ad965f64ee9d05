"""Stored messages: their places, ids and times; how long they stay, and how their time goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.publish.bounds import Bounds
from penstock.cli.shared.dialects import register_dialects
from penstock.core.errors import DiskFullError, StorageError
from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.node.registry import Observer
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store import nsq_messages
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.store.nsq_messages import id_of
from penstock.rocketmq.broker.store.retention import FILE, TopicRetention
from penstock.rocketmq.broker.store.serials import OFFSET_BITS, SERIAL_MAX, Serials
from penstock.rocketmq.broker.store.waiting_time import WaitingTime
from penstock.rocketmq.protocol import ids
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.batch import Batch
from penstock.storage.log import Log, LogOptions
from penstock.storage.queues import queue_index
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store, stored

BORN = ids.Host(bytes((10, 0, 0, 1)), 50000)


@pytest.fixture(autouse=True)
def _topics(services: Services) -> None:
    """One topic with a queue, and one with four."""
    for name, queues in (("four", 4), ("one", 1)):
        services.topics.put(TopicConfig(name, queues, queues), 1)


def draft(topic: str, queue: int, body: bytes) -> Draft:
    return Draft(topic, queue, body, "KEYS\x01k\x02", born_ms=5, born_host=BORN)


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
        (placed,) = put(services, draft(topic, number % queues, b"%d" % number))
        assert placed.queue_offset == number // queues
    for queue in range(queues):
        assert services.store.bounds(topic, queue) == (0, 12 // queues)
        assert [(m.queue, m.queue_offset, m.body) for m in stored(services, topic, queue)] == [
            (queue, place, b"%d" % number) for place, number in enumerate(range(queue, 12, queues))
        ]
    for place in ((topic, 9), ("unknown", 0)):
        assert services.store.bounds(*place) == (0, 0)
        assert services.store.read(*place, 0, 9, 999) == []


def test_reads_have_their_bounds(services: Services) -> None:
    put(services, *(draft("four", 0, b"x" * 100) for _ in range(10)))
    for offset, count, nbytes, found in (
        (0, 3, 1 << 20, [0, 1, 2]), (0, 99, 500, [0, 1]), (0, 99, 1, [0]), (8, 99, 1 << 20, [8, 9]),
    ):  # fmt: skip
        read = services.store.read("four", 0, offset, count, nbytes)
        assert [each.queue_offset for each in read] == found


def test_a_batch_is_several_messages(services: Services, clock: FakeClock) -> None:
    heard: list[tuple[str, list[tuple[int, int]]]] = []
    services.store.on_append.append(
        lambda topic, batches: heard.append((topic, [(b.queue, b.count) for b in batches]))
    )
    put(services, draft("four", 2, b"before"))
    bodies = [b"x" * size for size in (1, 5, 5)]
    places = put(services, *(draft("four", 2, body) for body in bodies))
    assert [each.queue_offset for each in places] == [1, 2, 3]
    assert heard == [("four", [(2, 1)]), ("four", [(2, 3)])]
    for body, place in zip(bodies, places, strict=True):
        message = services.store.message(place.physical_offset)
        assert message is not None
        assert (message.body, message.queue_offset) == (body, place.queue_offset)
        assert message.offset_id == place.message_id
        assert message.physical_offset == place.physical_offset
        assert message.store_ms == place.store_ms == clock.wall_ns() // 1_000_000
        assert (message.born_ms, message.born_host) == (5, BORN)
        assert ids.OffsetId.parse(place.message_id).offset == place.physical_offset


def test_messages_of_nsq_are_messages_too(services: Services) -> None:
    register_dialects()
    topic = services.store.topic("four")
    put(services, draft("four", 0, b"mine"))
    for body in (b"a", b"b", b"c", b"d"):
        topic.stage(Bodies.from_list([body, body * 2]), 0, lambda error: None)
        topic.commit()
    bodies = []
    for queue in range(4):
        for place, message in enumerate(stored(services, "four", queue)):
            assert (message.queue, message.queue_offset) == (queue, place)
            assert services.store.message(message.physical_offset) == message
            bodies.append(message.body)
    assert sorted(bodies) == [b"a", b"aa", b"b", b"bb", b"c", b"cc", b"d", b"dd", b"mine"]


def test_a_message_is_found_by_its_physical_offset_alone(services: Services) -> None:
    (one,), (four,) = (put(services, draft(*place, b"x")) for place in (("one", 0), ("four", 3)))
    for place, topic in ((one, "one"), (four, "four")):
        message = services.store.message(place.physical_offset)
        assert message is not None
        assert message.topic == topic
    for nowhere in (0, 1 << 45, one.physical_offset + 1, -1):
        assert services.store.frame(nowhere) is None


async def test_a_topic_that_is_made_again_has_other_physical_offsets(services: Services) -> None:
    (before,) = put(services, draft("one", 0, b"old"))
    await services.store.delete("one")
    (after,) = put(services, draft("one", 0, b"new"))
    assert after.queue_offset == 0
    assert after.physical_offset != before.physical_offset
    assert services.store.frame(before.physical_offset) is None


def test_offsets_by_time(services: Services, clock: FakeClock) -> None:
    times = []
    for number in range(6):
        times.append(put(services, draft("four", number % 2, b"x"))[0].store_ms)
        clock.advance(10_000_000)
    for topic, queue, ms, offset in (
        *(("four", 0, times[n], found) for n, found in ((0, 0), (1, 1), (2, 1), (4, 2), (5, 3))),
        ("four", 0, 0, 0), ("four", 1, times[-1] + 1, 3), ("unknown", 0, 5, 0),
    ):  # fmt: skip
        assert services.store.offset_at_time(topic, queue, ms) == offset


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
    for offset in (low - 1, 0):
        assert services.store.message_at(topic, 0, offset) is None
    for offset, count in ((0, 99), (low, 99), (low - 2, 3)):
        read = services.store.read(topic, 0, offset, count, 1 << 20)
        wanted = list(range(low, min(offset + count, high)))
        assert [each.queue_offset for each in read] == wanted
        assert [decode(bytes(each.frame))[0].queue_offset for each in read] == wanted


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


# --- serials --------------------------------------------------------------------------------------


class Files:
    """Files in memory; they can be broken."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.is_full = False

    def read_file(self, name: str) -> bytes | None:
        return self.content.get(name)

    def replace_file(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise StorageError("full")
        self.content[name] = data


def test_an_offset_finds_its_topic_after_a_restart_too() -> None:
    files = Files()
    serials = Serials(files)
    one, two = serials.physical("one", 5), serials.physical("two", 5)
    assert one != two
    for again in (serials, Serials(files)):
        assert again.locate(one) == ("one", 5)
        assert again.locate(two) == ("two", 5)
        assert again.locate(77 << OFFSET_BITS) is None
        assert again.locate(-1) is None


def test_a_serial_is_never_given_twice() -> None:
    files = Files()
    serials = Serials(files)
    before = serials.of("one")
    serials.forget("one")
    serials = Serials(files)
    assert serials.of("one") > before
    assert serials.locate(before << OFFSET_BITS) is None


def test_a_serial_that_could_not_be_written_down_is_not_given() -> None:
    files = Files()
    serials = Serials(files)
    files.is_full = True
    with pytest.raises(StorageError):
        serials.of("one")
    files.is_full = False
    assert serials.locate(serials.physical("one", 3)) == ("one", 3)
    assert Serials(files).of("one") == serials.of("one")


def test_offsets_stay_positive() -> None:
    files = Files()
    serials = Serials(files)
    serials.of("one")
    serials._next = SERIAL_MAX
    largest = serials.physical("last", (1 << OFFSET_BITS) - 1)
    assert largest == (1 << 63) - 1
    with pytest.raises(StorageError, match="topics"):
        serials.of("too many")


@pytest.mark.parametrize("content", [b"", b"{"])
def test_a_damaged_file_of_serials_says_what_to_do(content: bytes) -> None:
    files = Files()
    Serials(files).of("one")
    (name,) = files.content
    files.content[name] = content
    with pytest.raises(StorageError, match="Put back a good copy"):
        Serials(files)


# --- NSQ's messages -------------------------------------------------------------------------------


FIRST, FIRST_ID = 100, 0x0123456789ABCDEF
STORE = Host(b"\x7f\x00\x00\x01", 10911)


def pulled(*bodies: bytes, ms: int = 1_700_000_000_123) -> list[StoredMessage]:
    """All but the first of these, pulled."""
    records = Bodies.from_list(bodies)
    frames, table = records.encode(FIRST_ID, ms * 10**6 + 456)
    batch = Batch.build(FIRST, FIRST_ID, ms * 10**6 + 456, records.count, records.stride,
                        [frames], table=table)  # fmt: skip
    found = nsq_messages.frames(
        batch, FIRST + 1, batch.next_offset, topic="T", queue=3, queue_offset=41,
        physical=(5 << 40) | (FIRST + 1), host=STORE,
    )  # fmt: skip
    return [decode(frame)[0] for frame in found]


def test_a_slice_of_nsqs_messages() -> None:
    register_dialects()
    messages = pulled(b"a", b"bb", b"ccc")
    assert [each.body for each in messages] == [b"bb", b"ccc"]
    assert [each.queue_offset for each in messages] == [41, 42]
    assert [each.physical_offset & 0xFFFF for each in messages] == [FIRST + 1, FIRST + 2]
    first = messages[0]
    assert (first.topic, first.queue, first.store_host, first.born_host) == ("T", 3, STORE, STORE)
    assert first.born_ms == first.store_ms == 1_700_000_000_123
    assert (first.flag, first.sys_flag, first.reconsume_times) == (0, 0, 0)
    assert properties.value_of(first.properties, properties.TAGS) is None


@pytest.mark.parametrize("when", ["2026-01-01T00:00:00", "2026-01-31T23:59:59", "2024-02-29T12:00"])
def test_the_key_holds_the_id_and_the_time(when: str) -> None:
    """Java's tools read the time from the 4 bytes from the tenth on."""
    register_dialects()
    moment = datetime.fromisoformat(when).replace(tzinfo=UTC)
    (message,) = pulled(b"a", b"b", ms=int(moment.timestamp()) * 1000)
    key = properties.value_of(message.properties, properties.UNIQUE_KEY)
    assert key is not None
    assert len(key) == 32
    assert id_of(key) == FIRST_ID + 1
    of_month = moment - moment.replace(day=1, hour=0, minute=0, second=0)
    assert int.from_bytes(bytes.fromhex(key)[10:14]) == of_month.total_seconds() * 1000


@pytest.mark.parametrize("key", ["", "0" * 31, "0123456789ABCDEF0001000000000000", "x" * 32])
def test_keys_that_are_not_nsqs(key: str) -> None:
    assert id_of(key) is None


# --- how long messages stay, by who made their topic ----------------------------------------------


async def test_rocketmqs_are_kept_for_a_time_and_nsqs_until_they_are_read(
    services: Services,
) -> None:
    ours, theirs = services.node.registry.topic("ours"), services.node.registry.topic("theirs")
    services.retention.made_by_nsq(["theirs"])
    for topic in (ours, theirs):
        services.retention.adopt(topic)
    assert ours.retention == Retention(time_ns=72 * HOUR)
    assert theirs.retention is None
    await store(services, "ours", 0, b"a", b"b")
    await store(services, "theirs", 0, b"a", b"b")
    assert (ours.floor(), theirs.floor()) == (2, 0)


async def test_groups_hold_nsqs_topics(services: Services) -> None:
    topic = services.node.registry.topic("T")
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    services.retention.made_by_nsq(["T"])
    for number in range(6):
        await store(services, "T", number % 2, b"%d" % number)
    services.offsets.commit("T", "G", 0, 2)
    services.offsets.commit("T", "G", 1, 1)
    services.offsets.commit("T", "done", 0, 3)
    services.offsets.commit("T", "done", 1, 3)
    services.offsets.commit("T", "half", 1, 3)
    services.retention.hold()
    assert topic.groups == {"rocketmq:G": 3, "rocketmq:done": 6, "rocketmq:half": 0}
    services.offsets.commit("T", "half", 0, 3)
    services.offsets.forget_group("G")
    services.retention.hold()
    assert topic.groups == {"rocketmq:done": 6, "rocketmq:half": 6}
    services.offsets.commit("other", "G", 0, 1)
    services.retention.hold()
    assert "other" not in services.node.broker.topics


def test_who_made_a_topic_is_kept(services: Services) -> None:
    services.retention.made_by_nsq(["a", "b"])
    services.retention.forget("a")
    services.retention.forget("unknown")
    again = TopicRetention(services.settings, services.topics, services.offsets, services.store,
                           services.files)  # fmt: skip
    again.load(services.retention.as_json())
    for name, kept in (("a", True), ("b", False)):
        topic = services.node.registry.topic(name)
        again.adopt(topic)
        assert (topic.retention is not None) is kept


@pytest.mark.parametrize("value", [None, {}, {"topics": 5}])
def test_a_damaged_file_of_retention(services: Services, value: object) -> None:
    services.files.save(FILE)
    with pytest.raises(BodyError):
        services.retention.load(value)


async def test_where_messages_wait_is_not_bounded_as_others_are(services: Services) -> None:
    broker = services.node.broker
    broker._options = replace(broker._options, bounds=Bounds(max_depth=2))
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC, "T"):
        services.retention.adopt(services.node.registry.topic(name))
        await store(services, name, 0, b"1", b"2")
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC):
        await store(services, name, 0, b"3")
    with pytest.raises(AssertionError, match="topic is full"):
        await store(services, "T", 0, b"3")
    bounded = broker.topics[names.SCHEDULE_TOPIC]
    bounded.configure(TopicSettings(max_depth=3))
    services.retention.adopt(bounded)
    with pytest.raises(AssertionError, match="topic is full"):
        await store(services, bounded.name, 0, b"4")


# --- the clock for messages that wait in a system topic -------------------------------------------


def test_without_a_topic_it_is_the_systems_time(services: Services, clock: FakeClock) -> None:
    time = WaitingTime(services.store, clock, "nothing")
    clock.set_wall(clock.wall_ns() + HOUR)
    assert (time.now_ms(), time.of(5, 77)) == (clock.wall_ns() // MILLISECOND, 77)
    assert (time.ahead_ms(), time.least_ahead_ms()) == (0, 0)


async def test_it_goes_on_while_the_systems_time_is_set(
    services: Services, clock: FakeClock
) -> None:
    services.topics.put(TopicConfig("T", 1, 1), services.now_ms)
    time, start = WaitingTime(services.store, clock, "T"), services.now_ms
    await store(services, "T", 0, b"before")
    clock.set_wall(clock.wall_ns() - HOUR)
    clock.advance(SECOND)
    await store(services, "T", 0, b"after")
    clock.advance(SECOND)
    before, after = stored(services, "T")
    assert time.now_ms() == start + 2000
    assert (time.ahead_ms(), time.least_ahead_ms()) == (-HOUR // MILLISECOND,) * 2
    assert (time.age_ms(before, before.store_ms), time.age_ms(after, after.store_ms)) == (
        2000, 1000
    )  # fmt: skip
    assert (time.due_ms(before, 5000), time.due_ms(after, 5000)) == (start + 5000, start + 6000)


async def test_a_message_from_the_future_is_due_now(services: Services, clock: FakeClock) -> None:
    (placed,) = await store(services, "T", 0, b"x")
    time = WaitingTime(services.store, clock, "T")
    (message,) = stored(services, "T")
    future = replace(message, store_ms=placed.store_ms + 1001)
    near = replace(message, store_ms=placed.store_ms + 1000)
    assert time.due_ms(future, 5000) == time.now_ms()
    assert time.due_ms(near, 5000) == time.now_ms() + 6000


async def test_a_deadline_is_exact_while_time_passes(services: Services, clock: FakeClock) -> None:
    (placed,) = await store(services, "T", 0, b"x")
    (message,) = stored(services, "T")
    time = WaitingTime(services.store, clock, "T")
    monotonic_ns = clock.monotonic_ns

    def read() -> int:
        clock.advance(3 * MILLISECOND)
        return monotonic_ns()

    clock.monotonic_ns = read  # type: ignore[method-assign]
    assert time.due_ms(message, 5000) == placed.store_ms + 5000

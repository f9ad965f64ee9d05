"""Messages with a delay level: not early, in order, and not lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import schedule
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored
from tests.unit.rocketmq.broker.peers import FakePeer, answered, request

GET_ALL_DELAY_OFFSET = 45


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Iterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


@pytest.fixture
def services(lives: Lives) -> Services:
    return lives.begin("T")


def delayed(level: object, body: bytes = b"x", queue: int = 1, **more: str) -> Draft:
    text = properties.join({"KEYS": "k", "DELAY": str(level), **more})
    return Draft("T", queue, body, text, born_ms=5, flag=3, reconsume_times=2)


def bodies(services: Services, queue: int = 1) -> list[bytes]:
    return [message.body for message in stored(services, "T", queue)]


async def settle(services: Services) -> int:
    """Deliver all that is due; when the next one will be, in ms."""
    while (due_ms := await services.schedule.step()) <= services.now_ms:
        pass
    return due_ms


async def deliver(services: Services) -> None:
    """Deliver all messages that are due, whatever the system's time is."""
    for _ in range(5):
        await services.schedule.step()


# --- when it is delivered -------------------------------------------------------------------------


async def test_a_message_is_not_early_and_late_by_nothing(
    services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(delayed(1))
    start = services.now_ms
    assert await settle(services) == start + 1000
    clock.advance(999 * MILLISECOND)
    assert await settle(services) == start + 1000
    assert bodies(services) == []
    clock.advance(MILLISECOND)
    assert await settle(services) == FAR
    (message,) = stored(services, "T", 1)
    assert (message.body, message.born_ms, message.flag, message.reconsume_times) == (b"x", 5, 3, 2)
    assert message.store_ms == start + 1000
    found = properties.parse(message.properties)  # RocketMQ spec 4.6: all of them stay
    assert found == {"KEYS": "k", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "1"}


async def test_levels_do_not_wait_for_each_other(services: Services, clock: FakeClock) -> None:
    for level in (5, 3, 2, 1):
        await services.publisher.publish_one(delayed(level, b"%d" % level))
    for seconds, expected in ((1, [b"1"]), (4, [b"1", b"2"]), (5, [b"1", b"2", b"3"])):
        clock.advance(seconds * SECOND)
        await settle(services)
        assert bodies(services) == expected


async def test_the_order_within_a_level_is_kept_for_each_queue(
    services: Services, clock: FakeClock
) -> None:
    for number in range(1000):
        await services.publisher.publish_one(delayed(1, b"%d" % number, number % 4))
        clock.advance(MILLISECOND // 2)
    clock.advance(2 * SECOND)
    await settle(services)
    for queue in range(4):
        assert bodies(services, queue) == [b"%d" % number for number in range(queue, 1000, 4)]


async def test_a_backlog_is_delivered_in_slices(services: Services, clock: FakeClock) -> None:
    for number in range(300):
        await services.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    assert await services.schedule.step() <= services.now_ms
    assert len(bodies(services)) == schedule.SLICE
    await settle(services)
    assert len(bodies(services)) == 300


@pytest.mark.parametrize("by", [-60 * MINUTE, 60 * MINUTE])
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    services: Services, clock: FakeClock, by: int
) -> None:
    await services.publisher.publish_one(delayed(2, b"5 s"))
    await services.publisher.publish_one(delayed(1, b"first"))
    await services.publisher.publish_one(delayed(1, b"second"))
    await services.schedule.step()
    clock.set_wall(clock.wall_ns() + by)
    await services.publisher.publish_one(delayed(1, b"third"))
    clock.advance(999 * MILLISECOND)
    await services.publisher.publish_one(delayed(1, b"fourth"))
    await deliver(services)
    assert bodies(services) == []
    clock.advance(MILLISECOND)
    await deliver(services)
    assert bodies(services) == [b"first", b"second", b"third"]
    clock.advance(999 * MILLISECOND)
    await deliver(services)
    assert bodies(services)[3:] == [b"fourth"]
    clock.advance(3 * SECOND + MILLISECOND)
    await deliver(services)
    assert bodies(services)[4:] == [b"5 s"]


async def test_a_message_from_the_future_does_not_wait_for_it(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    """The system's time was set back while the broker was down."""
    await services.publisher.publish_one(delayed(18))
    clock.set_wall(clock.wall_ns() - 60 * MINUTE)
    services = lives.begin("T")
    await services.publisher.publish_one(delayed(1, b"after"))
    await settle(services)
    assert bodies(services) == [b"x"]


async def test_a_small_step_back_of_the_time_makes_nothing_early(
    services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(delayed(1))
    clock.set_wall(clock.wall_ns() - 500 * MILLISECOND)
    await settle(services)
    assert bodies(services) == []


async def test_a_deleted_topic_gets_nothing(services: Services, clock: FakeClock) -> None:
    await services.publisher.publish_one(delayed(1))
    services.topics.delete("T", 0)
    clock.advance(SECOND)
    await settle(services)
    assert services.schedule.progress() == {1: (1, 1)}
    assert services.store.bounds("T", 1) == (0, 0)


async def test_what_says_no_topic_holds_nothing_up(services: Services, clock: FakeClock) -> None:
    await store(services, names.SCHEDULE_TOPIC, 0, b"nowhere")
    await services.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"x"]


# --- failures and restarts ------------------------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again(services: Services, clock: FakeClock) -> None:
    for number in range(3):
        await services.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    failing = FailingPuts(services, "T", names.SCHEDULE_TOPIC)
    assert await services.schedule.step() == services.now_ms + 1000
    assert await services.schedule.step() == services.now_ms + 1000
    assert failing.count == 2, "neither to its topic nor to wait once more"
    assert services.schedule.progress() == {1: (0, 3)}
    failing.mend()
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"0", b"1", b"2"]
    assert services.schedule.progress() == {1: (3, 3)}


async def test_a_topic_that_takes_none_holds_up_no_other(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    services.topics.put(TopicConfig("U", 4, 4), 0)
    failing = FailingPuts(services, "U")
    for topic, body in (("T", b"a"), ("U", b"late"), ("T", b"b")):
        await services.publisher.publish_one(replace(delayed(1, body), topic=topic))
        clock.advance(SECOND)
        await settle(services)
    assert bodies(services) == [b"a", b"b"]
    assert services.schedule.progress() == {1: (3, 3), 2: (0, 1)}, "5 s later"
    services.files.save(schedule.FILE)
    failing.mend()
    services = lives.begin("T", "U")
    clock.advance(5 * SECOND)
    await settle(services)
    assert bodies(services) == [b"a", b"b"]
    (message,) = stored(services, "U", 1)
    assert (message.body, message.reconsume_times) == (b"late", 2)


async def test_a_level_that_cannot_be_read_holds_up_no_other(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for level in (1, 2):
        await services.publisher.publish_one(delayed(level, b"%d" % level))
    clock.advance(5 * SECOND)
    read = services.store.read

    def fails(topic: str, queue: int, *rest: int) -> object:
        if topic == names.SCHEDULE_TOPIC and not queue:
            raise StorageError("input/output error")
        return read(topic, queue, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(services.store, "read", fails)
        assert await settle(services) == services.now_ms + 1000
        assert [m.body for m in stored(services, "T", 1)] == [b"2"]
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"2", b"1"]


async def test_a_restart_goes_on_where_it_was(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(delayed(1, b"first"))
    clock.advance(SECOND)
    await settle(services)
    await services.publisher.publish_one(delayed(1, b"second"))
    await services.publisher.publish_one(delayed(2, b"third"))
    services.files.save(schedule.FILE)
    services = lives.begin("T")
    assert services.schedule.offsets() == {"offsetTable": {1: 1}}
    clock.advance(10 * SECOND)
    await settle(services)
    assert bodies(services) == [b"first", b"second", b"third"]


async def test_a_level_that_was_away_goes_on_where_it_was(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    await services.publisher.publish_one(delayed(3, b"once"))
    clock.advance(10 * SECOND)
    await settle(services)
    services.files.save(schedule.FILE)
    levels = lives.settings.message_delay_level
    for lives.settings.message_delay_level in ("1s 5s", levels):
        services = lives.begin("T")
        await settle(services)
        services.files.save(schedule.FILE)
        assert services.schedule.offsets() == {"offsetTable": {3: 1}}
    assert bodies(services) == [b"once"]
    await services.store.delete(names.SCHEDULE_TOPIC)
    assert services.schedule.offsets() == {"offsetTable": {}}


async def test_a_crash_before_the_offsets_are_saved_doubles_and_loses_nothing(
    lives: Lives, services: Services, clock: FakeClock
) -> None:
    for number in range(3):
        await services.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    await settle(services)
    services = lives.begin("T")
    await settle(services)
    assert bodies(services) == [b"0", b"1", b"2"] * 2


async def test_offsets_beyond_the_topic_are_set_right(lives: Lives, clock: FakeClock) -> None:
    services = lives.begin("T")
    services.schedule._levels[0].offset = 100
    services.files.save(schedule.FILE)
    services = lives.begin("T")
    await settle(services)
    await services.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"x"]


async def test_a_deleted_schedule_topic_is_forgotten(services: Services, clock: FakeClock) -> None:
    await services.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(services)
    await services.store.delete(names.SCHEDULE_TOPIC)
    await services.publisher.publish_one(delayed(1, b"new"))
    clock.advance(SECOND)
    await settle(services)
    assert bodies(services) == [b"x", b"new"]


@pytest.mark.parametrize(
    "value", [{}, [], {"offsetTable": 3}, {"offsetTable": {"1": "x"}}, {"offsetTable": {"1": -1}}]
)
def test_damaged_offsets_are_refused(services: Services, value: object) -> None:
    with pytest.raises(BodyError):
        services.schedule.load(value)


async def test_what_waits_is_held_and_what_is_delivered_is_let_go(
    services: Services, clock: FakeClock
) -> None:
    for level in (1, 2):
        await services.publisher.publish_one(delayed(level))
    await settle(services)
    topic = services.store.topic(names.SCHEDULE_TOPIC)
    services.retention.adopt(topic)
    assert topic.floor() == 0
    clock.advance(SECOND)
    await settle(services)
    assert topic.floor() == 1
    clock.advance(4 * SECOND)
    await settle(services)
    assert topic.floor() == 2


async def test_offsets_are_told_as_java_tells_them(services: Services, clock: FakeClock) -> None:
    await services.publisher.publish_one(delayed(1))
    await services.publisher.publish_one(delayed(3))
    clock.advance(SECOND)
    await settle(services)
    answer = answered(services, FakePeer().connection, request(GET_ALL_DELAY_OFFSET))
    assert (answer.code, answer.body) == (0, b'{"offsetTable":{1:1}}')

"""Messages with a delay level: not early, in order, and not lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.delays import schedule
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored

GET_ALL_DELAY_OFFSET = 45


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Iterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


@pytest.fixture
def controller(lives: Lives) -> Controller:
    return lives.begin("T")


def delayed(level: object, body: bytes = b"x", queue: int = 1, **more: str) -> Draft:
    text = properties.join({"KEYS": "k", "DELAY": str(level), **more})
    return Draft("T", queue, body, text, born_ms=5, flag=3, reconsume_times=2)


def bodies(controller: Controller, queue: int = 1) -> list[bytes]:
    return [message.body for message in stored(controller, "T", queue)]


async def settle(controller: Controller) -> int:
    """Deliver all that is due; when the next one will be, in ms."""
    while (due_ms := await controller.schedule.step()) <= controller.now_ms:
        pass
    return due_ms


async def deliver(controller: Controller) -> None:
    """Deliver all messages that are due, whatever the system's time is."""
    for _ in range(5):
        await controller.schedule.step()


# --- when it is delivered -------------------------------------------------------------------------


async def test_a_message_is_not_early_and_late_by_nothing(
    controller: Controller, clock: FakeClock
) -> None:
    await controller.publisher.publish_one(delayed(1))
    start = controller.now_ms
    assert await settle(controller) == start + 1000
    clock.advance(999 * MILLISECOND)
    assert await settle(controller) == start + 1000
    assert bodies(controller) == []
    clock.advance(MILLISECOND)
    assert await settle(controller) == FAR
    (message,) = stored(controller, "T", 1)
    assert (message.body, message.born_ms, message.flag, message.reconsume_times) == (b"x", 5, 3, 2)
    assert message.store_ms == start + 1000
    found = properties.parse(message.properties)  # RocketMQ spec 4.6: all of them stay
    assert found == {"KEYS": "k", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "1"}


async def test_levels_do_not_wait_for_each_other(controller: Controller, clock: FakeClock) -> None:
    for level in (5, 3, 2, 1):
        await controller.publisher.publish_one(delayed(level, b"%d" % level))
    for seconds, expected in ((1, [b"1"]), (4, [b"1", b"2"]), (5, [b"1", b"2", b"3"])):
        clock.advance(seconds * SECOND)
        await settle(controller)
        assert bodies(controller) == expected


async def test_the_order_within_a_level_is_kept_for_each_queue(
    controller: Controller, clock: FakeClock
) -> None:
    for number in range(1000):
        await controller.publisher.publish_one(delayed(1, b"%d" % number, number % 4))
        clock.advance(MILLISECOND // 2)
    clock.advance(2 * SECOND)
    await settle(controller)
    for queue in range(4):
        assert bodies(controller, queue) == [b"%d" % number for number in range(queue, 1000, 4)]


async def test_a_backlog_is_delivered_in_slices(controller: Controller, clock: FakeClock) -> None:
    for number in range(300):
        await controller.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    assert await controller.schedule.step() <= controller.now_ms
    assert len(bodies(controller)) == schedule.SLICE
    await settle(controller)
    assert len(bodies(controller)) == 300


@pytest.mark.parametrize("by", [-60 * MINUTE, 60 * MINUTE])
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    controller: Controller, clock: FakeClock, by: int
) -> None:
    await controller.publisher.publish_one(delayed(2, b"5 s"))
    await controller.publisher.publish_one(delayed(1, b"first"))
    await controller.publisher.publish_one(delayed(1, b"second"))
    await controller.schedule.step()
    clock.set_wall(clock.wall_ns() + by)
    await controller.publisher.publish_one(delayed(1, b"third"))
    clock.advance(999 * MILLISECOND)
    await controller.publisher.publish_one(delayed(1, b"fourth"))
    await deliver(controller)
    assert bodies(controller) == []
    clock.advance(MILLISECOND)
    await deliver(controller)
    assert bodies(controller) == [b"first", b"second", b"third"]
    clock.advance(999 * MILLISECOND)
    await deliver(controller)
    assert bodies(controller)[3:] == [b"fourth"]
    clock.advance(3 * SECOND + MILLISECOND)
    await deliver(controller)
    assert bodies(controller)[4:] == [b"5 s"]


async def test_a_message_from_the_future_does_not_wait_for_it(
    lives: Lives, controller: Controller, clock: FakeClock
) -> None:
    """The system's time was set back while the broker was down."""
    await controller.publisher.publish_one(delayed(18))
    clock.set_wall(clock.wall_ns() - 60 * MINUTE)
    controller = lives.begin("T")
    await controller.publisher.publish_one(delayed(1, b"after"))
    await settle(controller)
    assert bodies(controller) == [b"x"]


async def test_a_small_step_back_of_the_time_makes_nothing_early(
    controller: Controller, clock: FakeClock
) -> None:
    await controller.publisher.publish_one(delayed(1))
    clock.set_wall(clock.wall_ns() - 500 * MILLISECOND)
    await settle(controller)
    assert bodies(controller) == []


async def test_a_deleted_topic_gets_nothing(controller: Controller, clock: FakeClock) -> None:
    await controller.publisher.publish_one(delayed(1))
    controller.topics.delete("T", 0)
    clock.advance(SECOND)
    await settle(controller)
    assert controller.schedule.progress() == {1: (1, 1)}
    assert controller.store.bounds("T", 1) == (0, 0)


async def test_what_says_no_topic_holds_nothing_up(
    controller: Controller, clock: FakeClock
) -> None:
    await store(controller, names.SCHEDULE_TOPIC, 0, b"nowhere")
    await controller.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(controller)
    assert bodies(controller) == [b"x"]


# --- failures and restarts ------------------------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again(
    controller: Controller, clock: FakeClock
) -> None:
    for number in range(3):
        await controller.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    failing = FailingPuts(controller, "T", names.SCHEDULE_TOPIC)
    assert await controller.schedule.step() == controller.now_ms + 1000
    assert await controller.schedule.step() == controller.now_ms + 1000
    assert failing.count == 2, "neither to its topic nor to wait once more"
    assert controller.schedule.progress() == {1: (0, 3)}
    failing.mend()
    clock.advance(SECOND)
    await settle(controller)
    assert bodies(controller) == [b"0", b"1", b"2"]
    assert controller.schedule.progress() == {1: (3, 3)}


async def test_a_topic_that_takes_none_holds_up_no_other(
    lives: Lives, controller: Controller, clock: FakeClock
) -> None:
    controller.topics.put(TopicConfig("U", 4, 4), 0)
    failing = FailingPuts(controller, "U")
    for topic, body in (("T", b"a"), ("U", b"late"), ("T", b"b")):
        await controller.publisher.publish_one(replace(delayed(1, body), topic=topic))
        clock.advance(SECOND)
        await settle(controller)
    assert bodies(controller) == [b"a", b"b"]
    assert controller.schedule.progress() == {1: (3, 3), 2: (0, 1)}, "5 s later"
    controller.state.save(schedule.FILE)
    failing.mend()
    controller = lives.begin("T", "U")
    clock.advance(5 * SECOND)
    await settle(controller)
    assert bodies(controller) == [b"a", b"b"]
    (message,) = stored(controller, "U", 1)
    assert (message.body, message.reconsume_times) == (b"late", 2)


async def test_a_level_that_cannot_be_read_holds_up_no_other(
    controller: Controller, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for level in (1, 2):
        await controller.publisher.publish_one(delayed(level, b"%d" % level))
    clock.advance(5 * SECOND)
    read = controller.store.read

    def fails(topic: str, queue: int, *rest: int) -> object:
        if topic == names.SCHEDULE_TOPIC and not queue:
            raise StorageError("input/output error")
        return read(topic, queue, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(controller.store, "read", fails)
        assert await settle(controller) == controller.now_ms + 1000
        assert [m.body for m in stored(controller, "T", 1)] == [b"2"]
    clock.advance(SECOND)
    await settle(controller)
    assert bodies(controller) == [b"2", b"1"]


async def test_a_restart_goes_on_where_it_was(
    lives: Lives, controller: Controller, clock: FakeClock
) -> None:
    await controller.publisher.publish_one(delayed(1, b"first"))
    clock.advance(SECOND)
    await settle(controller)
    await controller.publisher.publish_one(delayed(1, b"second"))
    await controller.publisher.publish_one(delayed(2, b"third"))
    controller.state.save(schedule.FILE)
    controller = lives.begin("T")
    assert controller.schedule.offsets() == {"offsetTable": {1: 1}}
    clock.advance(10 * SECOND)
    await settle(controller)
    assert bodies(controller) == [b"first", b"second", b"third"]


async def test_a_level_that_was_away_goes_on_where_it_was(
    lives: Lives, controller: Controller, clock: FakeClock
) -> None:
    await controller.publisher.publish_one(delayed(3, b"once"))
    clock.advance(10 * SECOND)
    await settle(controller)
    controller.state.save(schedule.FILE)
    levels = lives.settings.message_delay_level
    for lives.settings.message_delay_level in ("1s 5s", levels):
        controller = lives.begin("T")
        await settle(controller)
        controller.state.save(schedule.FILE)
        assert controller.schedule.offsets() == {"offsetTable": {3: 1}}
    assert bodies(controller) == [b"once"]
    await controller.store.delete(names.SCHEDULE_TOPIC)
    assert controller.schedule.offsets() == {"offsetTable": {}}


async def test_a_crash_before_the_offsets_are_saved_doubles_and_loses_nothing(
    lives: Lives, controller: Controller, clock: FakeClock
) -> None:
    for number in range(3):
        await controller.publisher.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    await settle(controller)
    controller = lives.begin("T")
    await settle(controller)
    assert bodies(controller) == [b"0", b"1", b"2"] * 2


async def test_offsets_beyond_the_topic_are_set_right(lives: Lives, clock: FakeClock) -> None:
    controller = lives.begin("T")
    controller.schedule._levels[0].offset = 100
    controller.state.save(schedule.FILE)
    controller = lives.begin("T")
    await settle(controller)
    await controller.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(controller)
    assert bodies(controller) == [b"x"]


async def test_a_deleted_schedule_topic_is_forgotten(
    controller: Controller, clock: FakeClock
) -> None:
    await controller.publisher.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(controller)
    await controller.store.delete(names.SCHEDULE_TOPIC)
    await controller.publisher.publish_one(delayed(1, b"new"))
    clock.advance(SECOND)
    await settle(controller)
    assert bodies(controller) == [b"x", b"new"]


@pytest.mark.parametrize(
    "value", [{}, [], {"offsetTable": 3}, {"offsetTable": {"1": "x"}}, {"offsetTable": {"1": -1}}]
)
def test_damaged_offsets_are_refused(controller: Controller, value: object) -> None:
    with pytest.raises(BodyError):
        controller.schedule._load(value)


async def test_what_waits_is_held_and_what_is_delivered_is_let_go(
    controller: Controller, clock: FakeClock
) -> None:
    for level in (1, 2):
        await controller.publisher.publish_one(delayed(level))
    await settle(controller)
    topic = controller.store.topic(names.SCHEDULE_TOPIC)
    controller.retention.adopt(topic)
    assert topic.floor() == 0
    clock.advance(SECOND)
    await settle(controller)
    assert topic.floor() == 1
    clock.advance(4 * SECOND)
    await settle(controller)
    assert topic.floor() == 2

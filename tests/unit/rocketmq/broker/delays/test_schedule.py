"""Messages with a delay level: not early, in order, and not lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.units import MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import schedule
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.filling import FailingPuts, stored
from tests.unit.rocketmq.broker.peers import ask

from .conftest import Scene, delayed


async def test_a_message_is_not_early_and_late_by_nothing(scene: Scene) -> None:
    await scene.send(delayed(1))
    start = scene.services.now_ms
    assert await scene.settle() == start + 1000
    scene.clock.advance(999 * MILLISECOND)
    assert await scene.settle() == start + 1000
    assert scene.bodies(1) == []
    scene.clock.advance(MILLISECOND)
    assert await scene.settle() == FAR
    (message,) = stored(scene.services, "T", 1)
    assert (message.body, message.born_ms, message.flag, message.reconsume_times) == (b"x", 5, 3, 2)
    assert message.store_ms == start + 1000
    found = properties.parse(message.properties)  # RocketMQ spec 4.6: all of them stay
    assert found == {"KEYS": "k", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "1"}


async def test_levels_do_not_wait_for_each_other(scene: Scene) -> None:
    await scene.send(*(delayed(level, b"%d" % level) for level in (5, 3, 2, 1)))
    for seconds, expected in ((1, [b"1"]), (4, [b"1", b"2"]), (5, [b"1", b"2", b"3"])):
        assert await scene.deliver(seconds * SECOND) == expected


async def test_the_order_within_a_level_is_kept_for_each_queue(scene: Scene) -> None:
    for number in range(1000):
        await scene.send(delayed(1, b"%d" % number, number % 4))
        scene.clock.advance(MILLISECOND // 2)
    scene.clock.advance(2 * SECOND)
    assert await scene.services.schedule.step() <= scene.services.now_ms
    assert sum(len(scene.bodies(queue)) for queue in range(4)) == schedule.SLICE, "in slices"
    await scene.settle()
    for queue in range(4):
        assert scene.bodies(queue) == [b"%d" % number for number in range(queue, 1000, 4)]


@pytest.mark.parametrize("by", [-60 * MINUTE, 60 * MINUTE])
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    scene: Scene, by: int
) -> None:
    await scene.send(delayed(2, b"5 s"), delayed(1, b"first"), delayed(1, b"second"))
    await scene.services.schedule.step()
    scene.set_time(by)
    await scene.send(delayed(1, b"third"))
    scene.clock.advance(999 * MILLISECOND)
    await scene.send(delayed(1, b"fourth"))
    assert await scene.deliver() == []
    assert await scene.deliver(MILLISECOND) == [b"first", b"second", b"third"]
    assert (await scene.deliver(999 * MILLISECOND))[3:] == [b"fourth"]
    assert (await scene.deliver(3 * SECOND + MILLISECOND))[4:] == [b"5 s"]


async def test_a_message_from_the_future_does_not_wait_for_it(scene: Scene) -> None:
    """The system's time was set back while the broker was down."""
    await scene.send(delayed(18))
    scene.set_time(-60 * MINUTE)
    scene.crash()
    await scene.send(delayed(1, b"after"))
    assert await scene.deliver() == [b"x"]


async def test_a_small_step_back_of_the_time_makes_nothing_early(scene: Scene) -> None:
    await scene.send(delayed(1))
    scene.set_time(-500 * MILLISECOND)
    assert await scene.deliver() == []


async def test_a_deleted_topic_gets_nothing(scene: Scene) -> None:
    await scene.send(delayed(1))
    scene.services.topics.delete("T", 0)
    await scene.deliver(SECOND)
    assert scene.services.schedule.progress() == {1: (1, 1)}
    assert scene.services.store.bounds("T", 1) == (0, 0)


# --- failures and restarts ------------------------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again(scene: Scene) -> None:
    await scene.send(*(delayed(1, b"%d" % number) for number in range(3)))
    scene.clock.advance(SECOND)
    failing = FailingPuts(scene.services, "T", names.SCHEDULE_TOPIC)
    for _ in range(2):
        assert await scene.services.schedule.step() == scene.services.now_ms + 1000
    assert failing.count == 2, "neither to its topic nor to wait once more"
    assert scene.services.schedule.progress() == {1: (0, 3)}
    failing.mend()
    assert await scene.deliver(SECOND) == [b"0", b"1", b"2"]
    assert scene.services.schedule.progress() == {1: (3, 3)}


async def test_a_topic_that_takes_none_holds_up_no_other(scene: Scene) -> None:
    failing = FailingPuts(scene.services, "U")
    for topic, body in (("T", b"a"), ("U", b"late"), ("T", b"b")):
        await scene.send(replace(delayed(1, body), topic=topic))
        await scene.deliver(SECOND)
    assert scene.bodies(1) == [b"a", b"b"]
    assert scene.services.schedule.progress() == {1: (3, 3), 2: (0, 1)}, "5 s later"
    failing.mend()
    scene.crash(schedule.FILE)
    assert await scene.deliver(5 * SECOND) == [b"a", b"b"]
    (message,) = stored(scene.services, "U", 1)
    assert (message.body, message.reconsume_times) == (b"late", 2)


async def test_a_level_that_cannot_be_read_holds_up_no_other(scene: Scene) -> None:
    await scene.send(delayed(1, b"1"), delayed(2, b"2"))
    scene.clock.advance(5 * SECOND)
    first = (names.SCHEDULE_TOPIC, 0)
    with scene.unreadable("read", lambda topic, queue, *_: (topic, queue) == first):
        assert await scene.settle() == scene.services.now_ms + 1000
        assert scene.bodies(1) == [b"2"]
    assert await scene.deliver(SECOND) == [b"2", b"1"]


async def test_a_restart_goes_on_where_it_was(scene: Scene) -> None:
    await scene.send(delayed(1, b"first"))
    await scene.deliver(SECOND)
    await scene.send(delayed(1, b"second"), delayed(2, b"third"))
    scene.crash(schedule.FILE)
    assert scene.services.schedule.offsets() == {"offsetTable": {1: 1}}
    assert await scene.deliver(10 * SECOND) == [b"first", b"second", b"third"]


async def test_a_level_that_was_away_goes_on_where_it_was(scene: Scene) -> None:
    await scene.send(delayed(3, b"once"))
    await scene.deliver(10 * SECOND)
    settings = scene.settings
    levels = settings.message_delay_level
    for settings.message_delay_level in ("1s 5s", levels):
        scene.crash(schedule.FILE)
        await scene.settle()
        assert scene.services.schedule.offsets() == {"offsetTable": {3: 1}}
    assert scene.bodies(1) == [b"once"]
    await scene.services.store.delete(names.SCHEDULE_TOPIC)
    assert scene.services.schedule.offsets() == {"offsetTable": {}}


async def test_a_crash_before_the_offsets_are_saved_doubles_and_loses_nothing(
    scene: Scene,
) -> None:
    await scene.send(*(delayed(1, b"%d" % number) for number in range(3)))
    await scene.deliver(SECOND)
    scene.crash()
    assert await scene.deliver() == [b"0", b"1", b"2"] * 2


async def test_offsets_beyond_the_topic_are_set_right(scene: Scene) -> None:
    scene.services.schedule._levels[0].offset = 100
    scene.crash(schedule.FILE)
    await scene.settle()
    await scene.send(delayed(1))
    assert await scene.deliver(SECOND) == [b"x"]


async def test_a_deleted_schedule_topic_is_forgotten(scene: Scene) -> None:
    await scene.send(delayed(1))
    await scene.deliver(SECOND)
    await scene.services.store.delete(names.SCHEDULE_TOPIC)
    await scene.send(delayed(1, b"new"))
    assert await scene.deliver(SECOND) == [b"x", b"new"]


async def test_what_waits_is_held_and_what_is_delivered_is_let_go(scene: Scene) -> None:
    await scene.send(delayed(1), delayed(2))
    await scene.settle()
    topic = scene.services.store.topic(names.SCHEDULE_TOPIC)
    scene.services.retention.adopt(topic)
    for seconds, floor in ((0, 0), (1, 1), (4, 2)):
        await scene.deliver(seconds * SECOND)
        assert topic.floor() == floor


async def test_offsets_are_told_as_java_tells_them(scene: Scene) -> None:
    await scene.send(delayed(1), delayed(3))
    await scene.deliver(SECOND)
    answer = ask(scene.services, RequestCode.GET_ALL_DELAY_OFFSET)
    assert (answer.code, answer.body) == (0, b'{"offsetTable":{1:1}}')

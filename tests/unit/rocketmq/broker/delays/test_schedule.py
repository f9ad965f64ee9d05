"""Messages with a delay level: not early, in order, and not lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.units import MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.delays import schedule
from penstock.rocketmq.broker.delays.due_loop import FAR
from penstock.rocketmq.broker.draft import Draft
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.protocol import properties
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored
from tests.unit.rocketmq.broker.peers import FakePeer, request
from tests.unit.rocketmq.broker.test_pull import pull, send
from tests.unit.rocketmq.raw_client import RawClient

GET_ALL_DELAY_OFFSET = 45


@pytest.fixture
def lives(tmp_path: Path, clock: FakeClock) -> Iterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


@pytest.fixture
def node(lives: Lives) -> Node:
    return lives.begin("T")


def delayed(level: object, body: bytes = b"x", queue: int = 1, **more: str) -> Draft:
    text = properties.join({"KEYS": "k", "DELAY": str(level), **more})
    return Draft("T", queue, body, text, born_ms=5, flag=3, reconsume_times=2)


def bodies(node: Node, queue: int = 1) -> list[bytes]:
    return [message.body for message in stored(node, "T", queue)]


async def settle(node: Node) -> int:
    """Deliver all that is due; when the next one will be, in ms."""
    while (due_ms := await node.schedule.step()) <= node.now_ms:
        pass
    return due_ms


async def deliver(node: Node) -> None:
    """Deliver all messages that are due, whatever the system's time is."""
    for _ in range(5):
        await node.schedule.step()


# --- where a message goes -------------------------------------------------------------------------


def test_a_message_with_a_level_goes_to_the_queue_of_its_level(node: Node) -> None:
    draft = schedule.divert(node, delayed(3))
    assert (draft.topic, draft.queue) == (names.SCHEDULE_TOPIC, 2)
    found = properties.parse(draft.properties)
    assert found == {"KEYS": "k", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "1"}


def test_a_level_beyond_the_last_is_the_last(node: Node) -> None:
    draft = schedule.divert(node, delayed(99))
    assert draft.queue == 17
    assert properties.value_of(draft.properties, "DELAY") == "18"


def test_a_level_comes_before_a_time(node: Node) -> None:
    draft = schedule.divert(node, delayed(1, TIMER_DELAY_SEC="5"))
    assert draft.topic == names.SCHEDULE_TOPIC
    assert "TIMER" not in draft.properties


@pytest.mark.parametrize(
    "draft",
    [
        Draft("T", 0, b"x", "KEYS\x01k\x02"),
        Draft("T", 0, b"x", "MODEL\x01k\x02"),
        delayed(0),
        delayed(-1),
        replace(delayed(1), sys_flag=4),
        replace(delayed(1), sys_flag=12),
        replace(delayed(1), topic=names.HALF_TOPIC),
        replace(delayed(1), topic=names.SCHEDULE_TOPIC),
    ],
)
def test_all_others_stay_what_they_are(node: Node, draft: Draft) -> None:
    assert schedule.divert(node, draft) is draft


def test_a_committed_message_may_be_delayed(node: Node) -> None:
    assert schedule.divert(node, replace(delayed(1), sys_flag=8)).topic == names.SCHEDULE_TOPIC


def test_what_is_no_level_is_refused(node: Node) -> None:
    with pytest.raises(BodyError, match="DELAY is no number"):
        schedule.divert(node, delayed("soon"))
    with pytest.raises(RefusedError, match="longer than"):
        schedule.divert(node, delayed(1, more="v" * 32700))


# --- when it is delivered -------------------------------------------------------------------------


async def test_a_message_is_not_early_and_late_by_nothing(node: Node, clock: FakeClock) -> None:
    await node.publish_one(delayed(1))
    start = node.now_ms
    assert await settle(node) == start + 1000
    clock.advance(999 * MILLISECOND)
    assert await settle(node) == start + 1000
    assert bodies(node) == []
    clock.advance(MILLISECOND)
    assert await settle(node) == FAR
    (message,) = stored(node, "T", 1)
    assert (message.body, message.born_ms, message.flag, message.reconsume_times) == (b"x", 5, 3, 2)
    assert message.store_ms == start + 1000
    found = properties.parse(message.properties)  # reference 4.6: all of them stay
    assert found == {"KEYS": "k", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "1"}


async def test_levels_do_not_wait_for_each_other(node: Node, clock: FakeClock) -> None:
    for level in (5, 3, 2, 1):
        await node.publish_one(delayed(level, b"%d" % level))
    for seconds, expected in ((1, [b"1"]), (4, [b"1", b"2"]), (5, [b"1", b"2", b"3"])):
        clock.advance(seconds * SECOND)
        await settle(node)
        assert bodies(node) == expected


async def test_the_order_within_a_level_is_kept_for_each_queue(
    node: Node, clock: FakeClock
) -> None:
    for number in range(1000):
        await node.publish_one(delayed(1, b"%d" % number, number % 4))
        clock.advance(MILLISECOND // 2)
    clock.advance(2 * SECOND)
    await settle(node)
    for queue in range(4):
        assert bodies(node, queue) == [b"%d" % number for number in range(queue, 1000, 4)]


async def test_a_backlog_is_delivered_in_slices(node: Node, clock: FakeClock) -> None:
    for number in range(300):
        await node.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    assert await node.schedule.step() <= node.now_ms
    assert len(bodies(node)) == schedule.SLICE
    await settle(node)
    assert len(bodies(node)) == 300


@pytest.mark.parametrize("by", [-60 * MINUTE, 60 * MINUTE])
async def test_nobody_waits_longer_or_shorter_when_the_systems_time_is_set(
    node: Node, clock: FakeClock, by: int
) -> None:
    await node.publish_one(delayed(2, b"5 s"))
    await node.publish_one(delayed(1, b"first"))
    await node.publish_one(delayed(1, b"second"))
    await node.schedule.step()
    clock.set_wall(clock.wall_ns() + by)
    await node.publish_one(delayed(1, b"third"))
    clock.advance(999 * MILLISECOND)
    await node.publish_one(delayed(1, b"fourth"))
    await deliver(node)
    assert bodies(node) == []
    clock.advance(MILLISECOND)
    await deliver(node)
    assert bodies(node) == [b"first", b"second", b"third"]
    clock.advance(999 * MILLISECOND)
    await deliver(node)
    assert bodies(node)[3:] == [b"fourth"]
    clock.advance(3 * SECOND + MILLISECOND)
    await deliver(node)
    assert bodies(node)[4:] == [b"5 s"]


async def test_a_message_from_the_future_does_not_wait_for_it(
    lives: Lives, node: Node, clock: FakeClock
) -> None:
    """The system's time was set back while the broker was down."""
    await node.publish_one(delayed(18))
    clock.set_wall(clock.wall_ns() - 60 * MINUTE)
    node = lives.begin("T")
    await node.publish_one(delayed(1, b"after"))
    await settle(node)
    assert bodies(node) == [b"x"]


async def test_a_small_step_back_of_the_time_makes_nothing_early(
    node: Node, clock: FakeClock
) -> None:
    await node.publish_one(delayed(1))
    clock.set_wall(clock.wall_ns() - 500 * MILLISECOND)
    await settle(node)
    assert bodies(node) == []


async def test_a_deleted_topic_gets_nothing(node: Node, clock: FakeClock) -> None:
    await node.publish_one(delayed(1))
    node.topics.delete("T", 0)
    clock.advance(SECOND)
    await settle(node)
    assert node.schedule.progress() == {1: (1, 1)}
    assert node.store.bounds("T", 1) == (0, 0)


async def test_what_says_no_topic_holds_nothing_up(node: Node, clock: FakeClock) -> None:
    await store(node, names.SCHEDULE_TOPIC, 0, b"nowhere")
    await node.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(node)
    assert bodies(node) == [b"x"]


# --- failures and restarts ------------------------------------------------------------------------


async def test_what_cannot_be_stored_is_tried_again(node: Node, clock: FakeClock) -> None:
    for number in range(3):
        await node.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    failing = FailingPuts(node, "T")
    assert await node.schedule.step() == node.now_ms + 1000
    assert await node.schedule.step() == node.now_ms + 1000
    assert failing.count == 1
    assert node.schedule.progress() == {1: (0, 3)}
    failing.mend()
    clock.advance(SECOND)
    await settle(node)
    assert bodies(node) == [b"0", b"1", b"2"]
    assert node.schedule.progress() == {1: (3, 3)}


async def test_a_restart_goes_on_where_it_was(lives: Lives, node: Node, clock: FakeClock) -> None:
    await node.publish_one(delayed(1, b"first"))
    clock.advance(SECOND)
    await settle(node)
    await node.publish_one(delayed(1, b"second"))
    await node.publish_one(delayed(2, b"third"))
    node.state.save(schedule.FILE)
    node = lives.begin("T")
    assert node.schedule.offsets() == {"offsetTable": {1: 1}}
    clock.advance(10 * SECOND)
    await settle(node)
    assert bodies(node) == [b"first", b"second", b"third"]


async def test_a_crash_before_the_offsets_are_saved_doubles_and_loses_nothing(
    lives: Lives, node: Node, clock: FakeClock
) -> None:
    for number in range(3):
        await node.publish_one(delayed(1, b"%d" % number))
    clock.advance(SECOND)
    await settle(node)
    node = lives.begin("T")
    await settle(node)
    assert bodies(node) == [b"0", b"1", b"2"] * 2


async def test_offsets_beyond_the_topic_are_set_right(lives: Lives, clock: FakeClock) -> None:
    node = lives.begin("T")
    node.schedule._levels[0].offset = 100
    node.state.save(schedule.FILE)
    node = lives.begin("T")
    await settle(node)
    await node.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(node)
    assert bodies(node) == [b"x"]


async def test_a_deleted_schedule_topic_is_forgotten(node: Node, clock: FakeClock) -> None:
    await node.publish_one(delayed(1))
    clock.advance(SECOND)
    await settle(node)
    await node.store.delete(names.SCHEDULE_TOPIC)
    await node.publish_one(delayed(1, b"new"))
    clock.advance(SECOND)
    await settle(node)
    assert bodies(node) == [b"x", b"new"]


@pytest.mark.parametrize(
    "value", [{}, [], {"offsetTable": 3}, {"offsetTable": {"1": "x"}}, {"offsetTable": {"1": -1}}]
)
def test_damaged_offsets_are_refused(node: Node, value: object) -> None:
    with pytest.raises(BodyError):
        node.schedule._load(value)


async def test_what_waits_is_held_and_what_is_delivered_is_let_go(
    node: Node, clock: FakeClock
) -> None:
    for level in (1, 2):
        await node.publish_one(delayed(level))
    await settle(node)
    topic = node.store.topic(names.SCHEDULE_TOPIC)
    node.retention.adopt(topic)
    assert topic.floor() == 0
    clock.advance(SECOND)
    await settle(node)
    assert topic.floor() == 1
    clock.advance(4 * SECOND)
    await settle(node)
    assert topic.floor() == 2


async def test_offsets_are_told_as_java_tells_them(node: Node, clock: FakeClock) -> None:
    await node.publish_one(delayed(1))
    await node.publish_one(delayed(3))
    clock.advance(SECOND)
    await settle(node)
    asked = request(GET_ALL_DELAY_OFFSET)
    answer = schedule.all_delay_offsets(node, FakePeer().connection, asked)
    assert (answer.code, answer.body) == (0, b'{"offsetTable":{1:1}}')


# --- with a real broker and real time -------------------------------------------------------------


def test_level_one_takes_a_second(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    client = connect()
    assert send(client, "Now", b"x").code == 0
    start = time.monotonic()
    answer = send(client, "Later", b"x", i="DELAY\x011\x02TAGS\x01t")
    assert answer.ext is not None
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0")
    answer, messages = pull(client, "Later", 0, 0, sysFlag=6, suspendTimeoutMillis=20_000)
    took = time.monotonic() - start
    assert [m.body for m in messages] == [b"x"]
    assert took >= 1.0
    assert "DELAY\x011" in messages[0].properties

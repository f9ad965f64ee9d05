"""The channels of popping groups: where they begin, what ends them, what is too often."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop import pop_channel, pops
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.popping import Request, dispatch, popper, with_pops


@pytest.fixture
def topic(services: Services) -> Services:
    with_pops(services, queues=2)
    return services


async def fill(services: Services) -> None:
    for number in range(4):
        await store(services, "T", number % 2, b"%d" % number)


async def test_where_a_group_begins(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(topic)
    assert popper(topic, "start").channel.state.cursor == 0
    assert popper(topic, "young", from_end=True).channel.state.cursor == 0
    monkeypatch.setattr(pops, "YOUNG_BYTES_MAX", 10)
    assert popper(topic, "end", from_end=True).channel.state.cursor == 4
    topic.offsets.commit("T", "pulled", 0, 2)
    topic.offsets.commit("T", "pulled", 1, 1)
    assert popper(topic, "pulled").channel.state.cursor == 3
    topic.offsets.commit("T", "half", 1, 2)
    assert popper(topic, "half").channel.state.cursor == 0
    assert popper(topic, "start") is popper(topic, "start", from_end=True)


@pytest.mark.parametrize("group", ["%RETRY%G", "a|b", "g" * 65])
async def test_groups_that_are_no_channels(topic: Services, group: str) -> None:
    with pytest.raises(RefusedError, match="cannot pop"):
        popper(topic, group)


async def test_a_channel_that_somebody_deleted(topic: Services) -> None:
    await fill(topic)
    first = popper(topic)
    request = Request()
    first.wait(Request(4), 1000)
    await asyncio.sleep(0)
    first.wait(request, 1000)
    topic.node.registry.topic("T").delete_channel("G")
    assert topic.pops.find("T", "G") is None
    assert request.is_expired
    assert popper(topic) is not first
    again = Request()
    popper(topic).wait(again, 1000)
    await topic.store.delete("T")
    assert again.is_expired or again.answers == 0
    assert topic.pops.find("T", "G") is None


async def test_a_channel_that_nsq_made_is_shared(topic: Services) -> None:
    await fill(topic)
    made = topic.node.registry.topic("T")
    made.channel("G")
    made.distribute()
    assert popper(topic, from_end=True).channel is made.channels["G"]
    assert made.channels["G"].state.cursor == 0  # where it was


async def test_a_channel_of_nsqs_belongs_to_no_group_before_it_pops(topic: Services) -> None:
    await fill(topic)
    made = topic.node.registry.topic("T")
    channel = made.channel("G")
    made.distribute()
    topic.offsets.commit("T", "G", 0, 2)  # it pulls
    assert topic.pops.find("T", "G") is None
    assert not topic.pops.reset("T", "G", {0: 0}, 4, is_force=True)
    topic.pops.reset_queue("T", "G", 0, 2)
    topic.pops.peek("T", "G", 1)
    topic.pops.commit()
    assert channel.state.cursor == 0
    assert topic.offsets.query("T", "G", 0) == 2


async def test_a_group_that_popped_before_a_restart_is_set_to_another_place(
    topic: Services,
) -> None:
    await fill(topic)
    channel = popper(topic).channel
    topic.node.registry.topic("T").seek(channel, 4)
    topic.pops._channels.clear()  # as they are after a restart
    assert topic.pops.reset("T", "G", {}, 1, is_force=True)
    assert channel.state.cursor == 1


async def test_too_often(topic: Services, clock: FakeClock) -> None:
    topic.groups.put(GroupConfig("G", retry_max_times=0), topic.now_ms)
    await store(topic, "T", 1, b"poison", TAGS="t")
    channel = popper(topic)
    channel.wait(Request(), 100)
    await asyncio.sleep(0)
    clock.advance(200 * MILLISECOND)
    request = Request()
    channel.wait(request, 100)
    dispatch(topic)()
    for _ in range(5):
        await asyncio.sleep(0)
    assert request.answers == 0
    dead = topic.store.message_at("%DLQ%G", 0, 0)
    assert dead is not None
    assert (dead.body, dead.reconsume_times) == (b"poison", 1)
    found = properties.parse(dead.properties)
    assert (found["RETRY_TOPIC"], found["TAGS"]) == ("T", "t")
    assert channel.channel.state.floor() == 1
    assert channel.channel.state.in_flight_count == 0


async def test_a_group_without_retries_has_each_message_once(topic: Services) -> None:
    topic.groups.put(GroupConfig("G", retry_max_times=-1), topic.now_ms)
    await store(topic, "T", 1, b"once")
    request = Request()
    popper(topic).wait(request, 100)
    await asyncio.sleep(0)
    assert request.bodies == [b"once"]


async def test_too_often_and_with_too_much_to_say(topic: Services, clock: FakeClock) -> None:
    topic.groups.put(GroupConfig("G", retry_max_times=0), topic.now_ms)
    await store(topic, "T", 1, b"poison", TAGS="t" * (properties.BYTES_MAX - 10))
    channel = popper(topic)
    channel.wait(Request(), 100)
    await asyncio.sleep(0)
    clock.advance(200 * MILLISECOND)
    await store(topic, "T", 0, b"sound")
    request = Request()
    channel.wait(request, 100)
    dispatch(topic)()
    for _ in range(5):
        await asyncio.sleep(0)
    assert request.bodies == [b"sound"]
    dead = topic.store.message_at("%DLQ%G", 0, 0)
    assert dead is not None
    assert (dead.body, dead.reconsume_times) == (b"poison", 1)


async def test_looking(topic: Services) -> None:
    await fill(topic)
    found, rest = topic.pops.peek("T", "nobody", 3)
    assert ([(each.queue, each.queue_offset) for each in found], rest) == (
        [(0, 0), (1, 0), (0, 1)], 1,
    )  # fmt: skip
    channel = popper(topic)
    channel.wait(Request(2), 1000)
    await asyncio.sleep(0)
    found, rest = topic.pops.peek("T", "G", 9)
    assert ([each.offset for each in found], rest) == ([2, 3], 0)
    channel.hide(0, 0)
    topic.node.broker.tick(topic.clock.monotonic_ns() + MILLISECOND)
    found, rest = topic.pops.peek("T", "G", 1)
    assert ([(each.offset, each.attempts) for each in found], rest) == ([(0, 2)], 2)
    channel.channel.pause()
    assert topic.pops.peek("T", "G", 9) == ([], 0)


async def test_offsets_are_noted(topic: Services) -> None:
    await fill(topic)
    channel = popper(topic)
    channel.wait(Request(3), 1000)
    await asyncio.sleep(0)
    channel.finish([0, 2])
    topic.pops.commit()
    assert topic.offsets.of("T", "G") == {0: 1, 1: 0}
    channel.finish([1])
    topic.pops.commit()
    assert topic.offsets.of("T", "G") == {0: 2, 1: 1}
    topic.node.registry.topic("T").delete_channel("G")
    topic.pops.commit()
    assert len(topic.pops) == 0


async def test_a_group_is_set_to_another_place(topic: Services) -> None:
    await fill(topic)
    assert not topic.pops.reset("T", "G", {0: 0}, 0, is_force=True)  # it has popped nothing
    request = Request()
    popper(topic).wait(request, 1000)
    await asyncio.sleep(0)
    popper(topic).finish([each.offset for each in request.popped])
    assert topic.pops.reset("T", "G", {0: 0, 1: 0}, 1, is_force=False)
    assert topic.offsets.of("T", "G") == {0: 1, 1: 0}
    again = Request()
    popper(topic).wait(again, 1000)
    await asyncio.sleep(0)
    assert again.bodies == [b"1", b"2", b"3"]
    assert topic.pops.reset("T", "G", {}, 4, is_force=False)  # not on, unless forced
    assert popper(topic).channel.state.cursor == 1
    assert topic.pops.reset("T", "G", {}, 4, is_force=True)
    assert popper(topic).channel.state.floor() == 4


async def test_one_queue_of_a_group_is_set_to_another_place(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in (0, 1, 0, 1, 0, 1):
        await store(topic, "T", queue, b"%d" % queue)
    request = Request()
    popper(topic).wait(request, 1000)
    await asyncio.sleep(0)
    popper(topic).finish([each.offset for each in request.popped if each.offset != 5])
    topic.pops.reset_queue("T", "G", 0, 1)
    again = Request()
    popper(topic).wait(again, 1000)
    await asyncio.sleep(0)
    assert [(each.queue, each.queue_offset) for each in again.popped] == [(0, 1), (0, 2)]
    assert popper(topic).finish([5, 2, 4]) == [], "what others had popped stays theirs"
    await store(topic, "T", 0, b"new")
    topic.pops.reset_queue("T", "G", 0, 4)
    assert popper(topic).channel.state.unfinished_count == 0
    monkeypatch.setattr(pop_channel, "PLACES_MAX", 2)
    with pytest.raises(RefusedError, match="queue 0 of T cannot be reset alone"):
        topic.pops.reset_queue("T", "G", 0, 0)
    assert popper(topic).channel.state.unfinished_count == 0
    topic.pops.reset_queue("T", "other", 0, 0)  # it has popped nothing


async def test_a_group_in_order_is_set_to_other_offsets(topic: Services) -> None:
    await fill(topic)
    assert topic.pops.in_order("T", "G", from_end=False) == 2
    assert topic.pops.reset("T", "G", {0: 2, 1: 1}, 3, is_force=True)
    assert topic.offsets.of("T", "G") == {0: 2, 1: 1}

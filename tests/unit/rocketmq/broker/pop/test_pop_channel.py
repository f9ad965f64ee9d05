"""Requests that wait on a channel, and the messages they get."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.channels import channel as channels
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.pop import pop_channel
from penstock.rocketmq.broker.pop.pop_channel import TIMES_MAX
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.messages.message import decode
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.popping import Request, dispatch, popper, with_pops


@pytest.fixture
def topic(services: Services) -> Services:
    with_pops(services, queues=2)
    return services


async def settled() -> None:
    """Until what was delivered has been handed out, and what followed from it."""
    for _ in range(6):
        await asyncio.sleep(0)


async def test_requests_are_served_in_their_order(topic: Services) -> None:
    channel = popper(topic)
    first, second, third = Request(2), Request(3), Request(3)
    for request in (first, second, third):
        assert channel.wait(request, 1000)
    assert channel.waiting == 3
    await store(topic, "T", 0, b"a", b"b", b"c")
    dispatch(topic)()
    await settled()
    assert (first.bodies, second.bodies, third.bodies) == ([b"a", b"b"], [b"c"], [])
    assert channel.waiting == 1
    await store(topic, "T", 1, b"d")
    dispatch(topic)()
    await settled()
    assert third.bodies == [b"d"]
    assert [(each.queue, each.queue_offset) for each in third.popped] == [(1, 0)]
    assert [each.answers for each in (first, second, third)] == [1, 1, 1]


async def test_an_answer_is_not_longer_than_clients_read(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "SERVE_BYTES_MAX", 1)
    monkeypatch.setattr(pop_channel, "ANSWER_BYTES", 2000)
    channel = popper(topic)
    for number in range(5):
        await store(topic, "T", 0, b"%d" % number * 1000)
    requests = [Request(), Request()]
    for request in requests:
        channel.wait(request, 1000)
    await settled()
    assert [[body[:1] for body in each.bodies] for each in requests] == [[b"0", b"1"], [b"2", b"3"]]
    last = Request()
    channel.wait(last, 1000)
    await settled()
    assert [(each.offset, each.attempts) for each in last.popped] == [(4, 1)]


async def test_nor_when_one_batch_has_more(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_channel, "ANSWER_BYTES_MAX", 2500)
    channel = popper(topic)
    requests = [Request(4), Request(2)]
    for request in requests:
        channel.wait(request, 1000)
    await store(topic, "T", 0, *(b"%d" % number * 1000 for number in range(5)))
    dispatch(topic)()
    await settled()
    assert [[body[:1] for body in each.bodies] for each in requests] == [[b"0", b"1"], [b"2", b"3"]]
    assert (channel.channel.state.depth, channel.channel.state.in_flight_count) == (1, 4)


async def test_only_what_is_wanted(topic: Services) -> None:
    channel = popper(topic)
    for number in range(6):
        await store(topic, "T", 0, b"%d" % number, TAGS="ab"[number % 2])
    request = Request(3, "b")
    channel.wait(request, 1000)
    await settled()
    assert request.bodies == [b"1"]  # of the three that it could have taken
    other = Request(3, "b")
    channel.wait(other, 1000)
    await settled()
    assert other.bodies == [b"3", b"5"]
    assert channel.channel.state.in_flight_count == 3
    assert channel.finish([1, 3, 5, 0]) == [0]  # that one is done already
    assert channel.channel.state.floor() == 6


async def test_what_comes_again_says_so(topic: Services, clock: FakeClock) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, b"a", b"b", TAGS="t")
    for tries in range(3):
        request = Request()
        channel.wait(request, 100)
        await settled()
        messages = [decode(bytes(each.frame))[0] for each in request.popped]
        assert [each.reconsume_times for each in messages] == [tries, tries]
        assert [each.attempts for each in request.popped] == [tries + 1] * 2
        clock.advance(120 * MILLISECOND)
        dispatch(topic)()


async def test_hiding_for_another_time(topic: Services, clock: FakeClock) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, b"a", b"b")
    channel.wait(Request(), 1000)
    await settled()
    assert channel.hide(0, 10)
    assert channel.hide(1, 5000)
    assert not channel.hide(2, 10)
    waiting = Request()
    channel.wait(waiting, 1000)
    clock.advance(20 * MILLISECOND)
    dispatch(topic)()
    await settled()
    assert waiting.bodies == [b"a"]
    waiting = Request()
    channel.wait(waiting, 1000)
    clock.advance(4900 * MILLISECOND)
    dispatch(topic)()
    await settled()
    assert waiting.bodies == [b"a"]
    assert 1 not in [each.offset for each in waiting.popped]


async def test_who_gives_up_gets_nothing(topic: Services) -> None:
    channel = popper(topic)
    here, gone = object(), object()
    staying, leaving = Request(connection=here), Request(connection=gone)
    channel.wait(leaving, 1000)
    channel.wait(staying, 1000)
    channel.forget(gone)
    assert (leaving.is_cancelled, staying.is_cancelled, channel.waiting) == (True, False, 1)
    await store(topic, "T", 0, b"a")
    dispatch(topic)()
    channel.give_up(staying)  # between the delivery and the answer
    await settled()
    assert (staying.answers, leaving.answers) == (0, 0)
    assert (channel.channel.state.depth, channel.channel.state.in_flight_count) == (1, 0)
    late = Request()
    channel.wait(late, 1000)
    await settled()
    assert [each.attempts for each in late.popped] == [1]  # nobody has had it before


async def test_a_channel_that_is_emptied_in_between(topic: Services) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, b"a")
    request = Request()
    channel.wait(request, 1000)
    channel.give_up(request)
    channel.channel.empty()
    await settled()
    assert (channel.channel.state.depth, channel.channel.state.in_flight_count) == (0, 0)


async def test_an_index_that_cannot_be_read(
    topic: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, b"a")

    def fail(queue: int, offset: int) -> int:
        raise StorageError("disk on fire")

    monkeypatch.setattr(channel.topic.queues, "search", fail)
    request = Request()
    channel.wait(request, 1000)
    await settled()
    assert "failed to read what was popped - disk on fire" in caplog.text
    assert (request.answers, channel.channel.state.in_flight_count) == (0, 1)  # it will come again


async def test_so_many_different_times(topic: Services) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, *[b"x"] * (TIMES_MAX + 1))
    for number in range(TIMES_MAX):
        assert channel.wait(Request(1), 1000 + number)
        await settled()
    assert not channel.wait(Request(1), 7)
    assert channel.wait(Request(1), 1000)
    channel.finish([0])
    await settled()
    channel.finish(list(range(TIMES_MAX + 1)))
    assert channel.wait(Request(1), 7)  # those that hold nothing make room


async def test_the_end(topic: Services) -> None:
    channel = popper(topic)
    request = Request()
    channel.wait(request, 1000)
    channel.close()
    assert request.is_expired
    assert channel.waiting == 0

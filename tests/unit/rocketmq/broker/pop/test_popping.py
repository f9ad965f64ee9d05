"""Popping: where groups begin, what requests get, how messages are acknowledged or come again."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from penstock.broker.channels import channel as channels
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop import pop_channel, pops
from penstock.rocketmq.broker.pop.pop_channel import TIMES_MAX
from penstock.rocketmq.broker.pop.pop_orders import OpenBatch
from penstock.rocketmq.broker.pull import arrivals
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import PLACES, forbid_reading, store, stored
from tests.unit.rocketmq.broker.peers import FakePeer, ask, ask_later, hand_over, refused, request
from tests.unit.rocketmq.broker.popping import (
    Request,
    dispatched,
    popper,
    settled,
    take,
    with_pops,
)


@pytest.fixture
def topic(services: Services) -> Services:
    with_pops(services, queues=2)
    return services


async def fill(services: Services) -> None:
    """Four messages, in the two queues by turns."""
    for number in range(4):
        await store(services, "T", number % 2, b"%d" % number)


# --- requests that wait, and what they get --------------------------------------------------------


async def test_requests_are_served_in_their_order(topic: Services) -> None:
    channel = popper(topic)
    first, second, third = requests = [Request(2), Request(3), Request(3)]
    for each in requests:
        assert channel.wait(each, 1000)
    assert channel.waiting == 3
    await store(topic, "T", 0, b"a", b"b", b"c")
    await dispatched(topic)
    assert (first.bodies, second.bodies, third.bodies) == ([b"a", b"b"], [b"c"], [])
    assert channel.waiting == 1
    await store(topic, "T", 1, b"d")
    await dispatched(topic)
    assert (third.bodies, third.places) == ([b"d"], [(1, 0)])
    assert [each.answers for each in requests] == [1, 1, 1]


@pytest.mark.parametrize("is_one_batch", [False, True])
async def test_an_answer_is_not_longer_than_clients_read(
    topic: Services, monkeypatch: pytest.MonkeyPatch, is_one_batch: bool
) -> None:
    monkeypatch.setattr(
        channels, "SERVE_BYTES_MAX", channels.SERVE_BYTES_MAX if is_one_batch else 1
    )
    limit = ("ANSWER_BYTES_MAX", 2500) if is_one_batch else ("ANSWER_BYTES", 2000)
    monkeypatch.setattr(pop_channel, *limit)
    channel, requests = popper(topic), [Request(4), Request(2)]
    bodies = [b"%d" % number * 1000 for number in range(5)]
    for batch in [bodies] if is_one_batch else [[body] for body in bodies]:
        await store(topic, "T", 0, *batch)
    for each in requests:
        channel.wait(each, 1000)
    await dispatched(topic)
    assert [each.bodies for each in requests] == [bodies[:2], bodies[2:4]]
    assert (channel.channel.state.depth, channel.channel.state.in_flight_count) == (1, 4)
    last = await take(channel)
    assert [(each.offset, each.attempts) for each in last.popped] == [(4, 1)]


async def test_only_what_is_wanted(topic: Services) -> None:
    channel = popper(topic)
    for number in range(6):
        await store(topic, "T", 0, b"%d" % number, TAGS="ab"[number % 2])
    assert (await take(channel, 3, "b")).bodies == [b"1"]  # of the three that it could have taken
    assert (await take(channel, 3, "b")).bodies == [b"3", b"5"]
    assert channel.channel.state.in_flight_count == 3
    assert channel.finish([1, 3, 5, 0]) == [0]  # that one is done already
    assert channel.channel.state.floor() == 6


async def test_hiding_for_another_time(topic: Services) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, b"a", b"b")
    await take(channel)
    assert [channel.hide(0, 10), channel.hide(1, 5000), channel.hide(2, 10)] == [True, True, False]
    for ms in (20, 4900):
        waiting = Request()
        channel.wait(waiting, 1000)
        await dispatched(topic, ms)
        assert waiting.bodies == [b"a"]


async def test_who_gives_up_gets_nothing(topic: Services) -> None:
    channel = popper(topic)
    here, gone = object(), object()
    staying, leaving = Request(connection=here), Request(connection=gone)
    for each in (leaving, staying):
        channel.wait(each, 1000)
    channel.forget(gone)
    assert (leaving.is_cancelled, staying.is_cancelled, channel.waiting) == (True, False, 1)
    await store(topic, "T", 0, b"a")
    now = topic.clock.monotonic_ns()
    channel.channel.dispatch(now)
    channel.give_up(staying)  # between the delivery and the answer
    await settled()
    assert (staying.answers, leaving.answers) == (0, 0)
    assert (channel.channel.state.depth, channel.channel.state.in_flight_count) == (1, 0)
    late = await take(channel)
    assert [each.attempts for each in late.popped] == [1]  # nobody has had it before


async def test_a_channel_that_is_emptied_in_between(topic: Services) -> None:
    channel, waiting = popper(topic), Request()
    await store(topic, "T", 0, b"a")
    channel.wait(waiting, 1000)
    channel.give_up(waiting)
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
    found = await take(channel)
    assert "failed to read what was popped - disk on fire" in caplog.text
    assert (found.answers, channel.channel.state.in_flight_count) == (0, 1)  # it will come again


async def test_so_many_different_times(topic: Services) -> None:
    channel = popper(topic)
    await store(topic, "T", 0, *[b"x"] * (TIMES_MAX + 1))
    for number in range(TIMES_MAX):
        await take(channel, 1, hidden_ms=1000 + number)
    assert not channel.wait(Request(1), 7)
    assert channel.wait(Request(1), 1000)
    channel.finish([0])
    await settled()
    channel.finish(list(range(TIMES_MAX + 1)))
    assert channel.wait(Request(1), 7)  # those that hold nothing make room


@pytest.mark.parametrize("order", ["false", "true"])
@pytest.mark.parametrize("forbids", PLACES)
async def test_a_request_that_waits_is_asked_again_whether_it_may(
    services: Services, forbids: str, order: str
) -> None:
    pops = with_pops(services)
    peers = [FakePeer(), FakePeer()]
    for peer in peers:
        hand_over(services, peer.connection, request(
            Code.POP_MESSAGE, consumerGroup="G", topic="T", queueId=-1, maxMsgNums=32,
            invisibleTime=1000, pollTime=30_000, bornTime=1, initMode=0, order=order,
        ))  # fmt: skip
    forbid_reading(services, forbids)
    await store(services, "T", 0, b"a")
    await dispatched(services)
    assert len(pops) == 0
    for peer in peers:
        (again,) = peer.again
        with refused(ResponseCode.NO_PERMISSION, r"forbidden|no permission"):
            hand_over(services, peer.connection, again)
        assert not peer.sent
    if order == "false":  # the message waits for those who may have it
        channel = pops.find("T", "G")
        assert channel is not None
        state = channel.channel.state
        assert (state.depth, state.in_flight_count) == (1, 0)


# --- the channels of groups -----------------------------------------------------------------------


async def test_where_a_group_begins(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(topic)

    def begins(group: str, *, from_end: bool = False) -> int:
        return popper(topic, group, from_end=from_end).channel.state.cursor

    assert (begins("start"), begins("young", from_end=True)) == (0, 0)
    monkeypatch.setattr(pops, "YOUNG_BYTES_MAX", 10)
    assert begins("end", from_end=True) == 4
    for group, queue, offset in (("pulled", 0, 2), ("pulled", 1, 1), ("half", 1, 2)):
        topic.offsets.commit("T", group, queue, offset)
    assert (begins("pulled"), begins("half")) == (3, 0)
    assert popper(topic, "start") is popper(topic, "start", from_end=True)


async def test_channels_that_are_deleted_and_groups_that_can_have_none(topic: Services) -> None:
    await fill(topic)
    first, waiting, again = popper(topic), Request(), Request()
    await take(first, 4)
    first.wait(waiting, 1000)
    topic.node.registry.topic("T").delete_channel("G")
    assert topic.pops.find("T", "G") is None
    assert (waiting.is_expired, first.waiting) == (True, 0)
    assert popper(topic) is not first
    popper(topic).wait(again, 1000)
    await topic.store.delete("T")
    assert again.is_expired or again.answers == 0
    assert topic.pops.find("T", "G") is None
    for group in ("%RETRY%G", "a|b", "g" * 65):
        with pytest.raises(RefusedError, match="cannot pop"):
            popper(topic, group)


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
    topic.offsets.forget_group("G")
    assert popper(topic, from_end=True).channel is channel, "then it is shared"
    assert channel.state.cursor == 0  # where it was


async def test_a_group_that_popped_before_a_restart_is_set_to_another_place(
    topic: Services,
) -> None:
    await fill(topic)
    channel = popper(topic).channel
    topic.node.registry.topic("T").seek(channel, 4)
    topic.pops._channels.clear()  # as they are after a restart
    assert topic.pops.reset("T", "G", {}, 1, is_force=True)
    assert channel.state.cursor == 1


@pytest.mark.parametrize("times", [0, -1])
@pytest.mark.parametrize(
    "tags", ["t", "t" * (properties.BYTES_MAX - 10)], ids=["a word", "all that has room"]
)
async def test_too_often(topic: Services, clock: FakeClock, tags: str, times: int) -> None:
    topic.groups.put(GroupConfig("G", retry_max_times=times), topic.now_ms)
    await store(topic, "T", 1, b"poison", TAGS=tags)
    channel, second = popper(topic), Request()
    assert (await take(channel, hidden_ms=100)).bodies == [b"poison"], "once at least"
    clock.advance(200 * MILLISECOND)
    await store(topic, "T", 0, b"sound")
    channel.wait(second, 100)
    await dispatched(topic)
    assert second.bodies == [b"sound"]
    (dead,) = stored(topic, "%DLQ%G")
    assert (dead.body, dead.reconsume_times) == (b"poison", 1)
    if len(tags) == 1:
        found = properties.parse(dead.properties)
        assert (found["RETRY_TOPIC"], found["TAGS"]) == ("T", "t")
    assert (channel.channel.state.floor(), channel.channel.state.in_flight_count) == (1, 1)


async def test_looking(topic: Services) -> None:
    await fill(topic)
    found, rest = topic.pops.peek("T", "nobody", 3)
    places = [(each.queue, each.queue_offset) for each in found]
    assert (places, rest) == ([(0, 0), (1, 0), (0, 1)], 1)
    channel = popper(topic)
    await take(channel, 2)
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
    await take(channel, 3)
    for finished, offsets in (([0, 2], {0: 1, 1: 0}), ([1], {0: 2, 1: 1})):
        channel.finish(finished)
        topic.pops.commit()
        assert topic.offsets.of("T", "G") == offsets
    topic.node.registry.topic("T").delete_channel("G")
    topic.pops.commit()
    assert len(topic.pops) == 0


async def test_a_group_is_set_to_another_place(topic: Services) -> None:
    await fill(topic)
    assert not topic.pops.reset("T", "G", {0: 0}, 0, is_force=True)  # it has popped nothing
    channel = popper(topic)
    channel.finish((await take(channel)).offsets)
    assert topic.pops.reset("T", "G", {0: 0, 1: 0}, 1, is_force=False)
    assert topic.offsets.of("T", "G") == {0: 1, 1: 0}
    assert (await take(popper(topic))).bodies == [b"1", b"2", b"3"]
    assert topic.pops.reset("T", "G", {}, 4, is_force=False)  # not on, unless forced
    assert popper(topic).channel.state.cursor == 1
    assert topic.pops.reset("T", "G", {}, 4, is_force=True)
    assert popper(topic).channel.state.floor() == 4


async def test_one_queue_of_a_group_is_set_to_another_place(
    topic: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in (0, 1, 0, 1, 0, 1):
        await store(topic, "T", queue, b"%d" % queue)
    found = await take(popper(topic))
    popper(topic).finish([each for each in found.offsets if each != 5])
    topic.pops.reset_queue("T", "G", 0, 1)
    assert (await take(popper(topic))).places == [(0, 1), (0, 2)]
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


# --- acknowledging, and hiding for another time ---------------------------------------------------


@pytest.fixture
async def popped(topic: Services) -> Services:
    """Three messages of queue 1 are hidden for a second."""
    await store(topic, "T", 1, b"a", b"b", b"c")
    popper(topic).wait(Request(), 1000)
    return topic


def fields(services: Services, offset: int = 0, **changes: Any) -> dict[str, Any]:
    receipt = f"0 {services.now_ms} 1000 0 0 broker-a 1 {offset}"
    return {"consumerGroup": "G", "topic": "T", "queueId": 1, "offset": offset,
            "extraInfo": receipt, "invisibleTime": 9000, **changes}  # fmt: skip


def in_flight(services: Services) -> int:
    return popper(services).channel.state.in_flight_count


async def test_one_is_acknowledged(popped: Services) -> None:
    for _ in range(2):  # a repetition changes nothing
        assert ask(popped, Code.ACK_MESSAGE, **fields(popped, 1)).code == ResponseCode.SUCCESS
        assert in_flight(popped) == 2


@pytest.mark.parametrize("asked", [Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 2}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 4}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
    ],
)
async def test_acknowledgements_that_are_refused(
    popped: Services, asked: int, changes: dict[str, Any], code: ResponseCode
) -> None:
    with refused(code):
        ask(popped, asked, **{**fields(popped), **changes})


async def test_a_receipt_that_is_too_late(popped: Services, clock: FakeClock) -> None:
    given = fields(popped)
    clock.advance(1000 * MILLISECOND)
    for code in (Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME):
        assert ask(popped, code, **given).code == ResponseCode.SUCCESS
    assert in_flight(popped) == 3  # it may be somebody else's by now
    with pytest.raises(BodyError, match="extra info"):
        ask(popped, Code.ACK_MESSAGE, **{**given, "extraInfo": "x"})


async def test_several_are_acknowledged(popped: Services) -> None:
    def acknowledge(**changes: Any) -> int:
        bits = base64.b64encode(bytes((0b1101,))).decode()
        entry = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 1, "rq": 0, "pt": popped.now_ms,
                 "it": 1000, "b": bits, **changes}  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": [entry]}).encode()
        return ask(popped, Code.BATCH_ACK_MESSAGE, body).code

    assert acknowledge() == ResponseCode.SUCCESS
    assert in_flight(popped) == 1  # the fourth bit is of no message
    assert acknowledge(t="missing") == acknowledge(c="nobody") == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("body", "error"),
    [(b"", RefusedError), (b"{}", RefusedError), (b'{"acks":[]}', RefusedError),
     (b'{"acks":5}', BodyError), (b'{"acks":[5]}', BodyError), (b"{", BodyError)],
)  # fmt: skip
async def test_acknowledging_nothing(topic: Services, body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        ask(topic, Code.BATCH_ACK_MESSAGE, body)
    if isinstance(caught.value, RefusedError):
        assert caught.value.code == ResponseCode.NO_MESSAGE


async def test_another_time(popped: Services, clock: FakeClock) -> None:
    answer = ask(popped, Code.CHANGE_MESSAGE_INVISIBLETIME, **fields(popped, 2))
    assert answer.ext == {"popTime": str(popped.now_ms), "invisibleTime": "9000", "reviveQid": "0"}
    clock.advance(2000 * MILLISECOND)
    channel = popper(popped).channel
    channel.tick(clock.monotonic_ns())
    assert (channel.state.in_flight_count, channel.state.depth) == (1, 2)
    receipt = f"0 {popped.now_ms - 2000} 9000 0 0 broker-a 1 2"
    ask(popped, Code.ACK_MESSAGE, **fields(popped, 2, extraInfo=receipt))
    assert in_flight(popped) == 0


async def test_messages_of_queues_that_the_topic_has_no_more(services: Services) -> None:
    with_pops(services, queues=8)
    await store(services, "T", 6, b"left")
    with_pops(services, queues=4)
    assert (await take(popper(services))).places == [(6, 0)]
    given = fields(services, queueId=6)
    for code in (Code.CHANGE_MESSAGE_INVISIBLETIME, Code.ACK_MESSAGE):
        assert ask(services, code, **given).code == ResponseCode.SUCCESS
    assert in_flight(services) == 0


# --- notices that there is something --------------------------------------------------------------

NOTHING, SOMETHING = (
    {"hasMsg": has, "pollingFull": "false"} for has in ("false", "true")
)  # fmt: skip


async def noticed(services: Services, **changes: Any) -> dict[str, str] | None:
    asked = {"consumerGroup": "G", "topic": "T", "queueId": -1, "pollTime": 30_000, "bornTime": 1}
    return (await ask_later(services, Code.NOTIFICATION, **{**asked, **changes})).ext


async def test_something_comes(topic: Services) -> None:
    listeners = len(topic.store.on_append)
    waiting = [asyncio.ensure_future(noticed(topic)) for _ in range(2)]
    await settled()
    assert len(topic.store.on_append) == listeners + 1
    await store(topic, "other", 0, b"a")
    assert not any(each.done() for each in waiting)
    await store(topic, "T", 0, b"a")
    assert await asyncio.gather(*waiting) == [SOMETHING] * 2
    assert len(topic.store.on_append) == listeners


async def test_a_hidden_message_becomes_visible_again(topic: Services) -> None:
    await store(topic, "T", 0, b"a")
    assert (await take(popper(topic), hidden_ms=20)).bodies == [b"a"]
    waiting = asyncio.ensure_future(noticed(topic))
    await settled()
    await dispatched(topic, 20)
    assert await asyncio.wait_for(waiting, 60) == SOMETHING


async def test_what_somebody_else_has_had_is_not_told(topic: Services) -> None:
    popper(topic)
    waiting = asyncio.ensure_future(noticed(topic, pollTime=50))
    await asyncio.sleep(0)
    await store(topic, "T", 0, b"a")
    assert popper(topic).wait(Request(), 60_000)
    await dispatched(topic)
    assert not waiting.done()
    assert await waiting == NOTHING


async def test_nothing_comes(topic: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    for poll_ms in (0, 10):
        assert await noticed(topic, pollTime=poll_ms) == NOTHING
    monkeypatch.setattr(arrivals, "WAITING_MAX", 0)  # too many wait
    assert await noticed(topic) == {"hasMsg": "false", "pollingFull": "true"}


async def test_in_order_nothing_is_there_while_a_batch_is_out(topic: Services) -> None:
    ordered, key, now_ms = topic.pops.ordered, ("T", "G"), topic.now_ms
    await store(topic, "T", 0, b"a", b"b")
    assert await noticed(topic, order="true") == SOMETHING
    ordered.table.put(key, 0, OpenBatch([0], now_ms, 60_000))
    assert await noticed(topic, order="true", pollTime=10) == NOTHING
    waiting = asyncio.ensure_future(noticed(topic, order="true"))
    await asyncio.sleep(0)
    assert ordered.finish(key, 0, [0], now_ms) == []
    assert await waiting == SOMETHING

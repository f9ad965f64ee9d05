"""Groups that pop: a channel with RocketMQ's consumers, beside NSQ's."""

from __future__ import annotations

import time

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from tests.metrics_pages import until
from tools.harness.rocketmq.popping import Popper, popped

from .conftest import SECONDS, Both, bodies

WAIT_MS = int(SECONDS * 1000)


def until_something(popper: Popper, **more: int) -> list[tuple[bytes, int]]:
    """Bodies and tries of what comes next, whenever that is."""
    return [(each.body, each.message.reconsume_times)
            for each in popper.pop(poll_ms=WAIT_MS, **more)]  # fmt: skip


def until_waiting(popper: Popper, count: int) -> None:
    """Wait until so many requests of a group wait for messages."""
    wanted = {"pollingNum": str(count)}
    until(lambda: popper.client.ask(RequestCode.POLLING_INFO, **popper.fields()).ext == wanted)


def test_popped_messages_are_hidden_until_they_are_acknowledged(both: Both) -> None:
    client = both.client()
    both.make_topic(client, "t", queues=2)
    for number in range(4):
        both.send(client, "t", b"%d" % number, queue=number % 2)
    both.publish("t", b"nsq")
    popper = Popper(client, "t")
    first = popper.pop(3)
    assert [each.body for each in first] == [b"0", b"1", b"2"]
    second = popper.pop()
    assert [each.body for each in second] == [b"3", b"nsq"]
    assert popper.pop() == []
    assert popper.batch_ack(first).code == ResponseCode.SUCCESS
    for each in second:
        assert popper.ack(each).code == ResponseCode.SUCCESS
    channel = both.topic("t").channels["G"]
    assert (channel.state.depth, channel.state.in_flight_count, channel.state.floor()) == (0, 0, 5)
    # The offsets of a popping group are noted for those who ask how far it is.
    both.services.pops.commit()
    assert both.services.offsets.of("t", "G") == {
        queue: both.services.store.bounds("t", queue)[1] for queue in range(2)
    }


def test_what_is_not_acknowledged_comes_again(both: Both) -> None:
    client = both.client()
    both.send(client, "t", b"again", TAGS="a")
    popper = Popper(client, "t")
    (first,) = popper.pop(invisible_ms=50)
    (second,) = popper.pop(invisible_ms=50, poll_ms=WAIT_MS)
    assert (second.body, second.message.reconsume_times) == (b"again", 1)
    assert second.message.properties == first.message.properties
    # The first receipt is worth nothing any more, though it is answered.
    assert popper.ack(first).code == ResponseCode.SUCCESS
    (third,) = popper.pop(poll_ms=WAIT_MS)
    assert third.message.reconsume_times == 2
    assert popper.ack(third).code == ResponseCode.SUCCESS
    assert popper.pop() == []


def test_a_request_waits_for_messages_of_either_dialect(both: Both) -> None:
    client, other = both.client(), both.client()
    both.publish("t", b"before")
    popper = Popper(client, "t")
    assert len(popper.pop()) == 1
    for send in (lambda: both.publish("t", b"new"), lambda: both.send(other, "t", b"new")):
        request = client.request(
            RequestCode.POP_MESSAGE,
            **popper.fields(maxMsgNums=8, invisibleTime=60_000, pollTime=WAIT_MS, bornTime=1,
                            initMode=0),
        )  # fmt: skip
        client.send(frames.encode(request))
        until_waiting(Popper(other, "t"), 1)
        send()
        assert [each.body for each in popped(client.next_command())] == [b"new"]


def test_nothing_comes_in_time(both: Both) -> None:
    client = both.client()
    both.publish("t", b"one")
    popper = Popper(client, "t")
    popper.pop()
    began = time.monotonic()
    answer = popper.ask(poll_ms=100)
    assert time.monotonic() - began >= 0.1
    assert answer.code == ResponseCode.POLLING_TIMEOUT
    assert (answer.ext or {})["restNum"] == "0"


def test_the_invisible_time_is_changed(both: Both) -> None:
    client = both.client()
    both.publish("t", b"one", b"two")
    popper = Popper(client, "t")
    one, two = popper.pop(invisible_ms=60_000)
    answer = popper.change(one, 20)
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext or {})["invisibleTime"] == "20"
    assert until_something(popper) == [(b"one", 1)]
    # Longer than it was: the receipt is of the new time.
    ext = popper.change(two, 120_000).ext or {}
    words = two.receipt.split(" ")
    renewed = two._replace(
        receipt=" ".join([words[0], ext["popTime"], ext["invisibleTime"], *words[3:]])
    )
    assert popper.ack(renewed).code == ResponseCode.SUCCESS
    assert both.topic("t").channels["G"].state.in_flight_count == 1  # the first one, again


def test_what_failed_too_often_goes_to_the_dead_letters(both: Both) -> None:
    client = both.client()
    both.send(client, "t", b"poison", KEYS="k")
    both.publish("t", b"bad")
    body = b'{"groupName":"G","retryMaxTimes":1}'
    client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
    popper = Popper(client, "t")
    for tries in (0, 1):
        found: list[tuple[bytes, int]] = []
        while len(found) < 2:
            found += until_something(popper, invisible_ms=30)
        assert sorted(found) == [(b"bad", tries), (b"poison", tries)]
    assert popper.ask(poll_ms=500).code == ResponseCode.POLLING_TIMEOUT
    channel = both.topic("t").channels["G"]
    until(lambda: (channel.state.depth, channel.state.in_flight_count) == (0, 0))
    dead = both.pulled(client, "%DLQ%G")
    assert sorted(each.body for each in dead) == [b"bad", b"poison"]
    assert [each.reconsume_times for each in dead] == [2, 2]


def test_filters_finish_what_is_not_wanted(both: Both) -> None:
    client = both.client()
    for number in range(100):
        both.send(client, "t", b"%d" % number, TAGS="ab"[number % 2], size=str(number))
    both.publish("t", b"nsq")
    popper = Popper(client, "t")
    tagged = popper.pop(10, exp="a", expType="TAG", poll_ms=1000)
    assert tagged
    assert {each.message.properties.partition("TAGS\x01")[2][:1] for each in tagged} == {"a"}
    large = popper.pop(10, exp="size > 97", expType="SQL92", poll_ms=WAIT_MS)
    assert {each.body for each in large} <= {b"98", b"99"}
    assert popper.ask(exp="size >", expType="SQL92").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_nsqs_consumers_share_the_channel_of_a_group(both: Both) -> None:
    client = both.client()
    both.publish("t", b"1", b"2", b"3")
    popper = Popper(client, "t", group="shared")
    assert [each.body for each in popper.pop(1)] == [b"1"]
    consumer = both.consumer("t", "shared", max_in_flight=1)
    assert bodies(consumer, 2) == [b"2", b"3"]
    (topic,) = both.http("GET", "/stats?format=json&topic=t")["topics"]
    (channel,) = topic["channels"]
    assert (channel["channel_name"], channel["in_flight_count"]) == ("shared", 1)


def test_a_restart_shows_hidden_messages_again(both: Both) -> None:
    client = both.client()
    both.publish("t", b"done", b"hidden", b"new")
    popper = Popper(client, "t")
    done, _ = popper.pop(2)
    popper.ack(done)
    both.restart()
    popper = Popper(both.client(), "t")
    assert sorted(until_something(popper)) == [(b"hidden", 1), (b"new", 0)]


def test_a_channel_or_topic_that_is_deleted(both: Both) -> None:
    client = both.client()
    both.publish("t", b"1")
    popper = Popper(client, "t")
    (old,) = popper.pop()
    both.http("POST", "/channel/delete?topic=t&channel=G")
    assert popper.ack(old).code == ResponseCode.SUCCESS
    assert [each.body for each in popper.pop()] == [b"1"]  # a new channel, from the start
    both.http("POST", "/topic/delete?topic=t")
    assert popper.ack(old).code == ResponseCode.TOPIC_NOT_EXIST
    assert popper.ask().code == ResponseCode.TOPIC_NOT_EXIST


def test_a_client_that_leaves_takes_nothing_along(both: Both) -> None:
    client, leaving = both.client(), both.client()
    both.publish("t", b"1")
    popper = Popper(client, "t")
    popper.pop()
    request = leaving.request(
        RequestCode.POP_MESSAGE,
        **popper.fields(maxMsgNums=8, invisibleTime=60_000, pollTime=WAIT_MS, bornTime=1,
                        initMode=0),
    )  # fmt: skip
    leaving.send(frames.encode(request))
    until_waiting(popper, 1)
    leaving.close()
    until_waiting(popper, 0)
    both.publish("t", b"2")
    assert [each.body for each in popper.pop()] == [b"2"]


def test_looking_without_popping(both: Both) -> None:
    client = both.client()
    both.publish("t", b"1", b"2", b"3")
    popper = Popper(client, "t")
    fields = popper.fields(maxMsgNums=2)
    for _ in range(2):
        answer = client.ask(RequestCode.PEEK_MESSAGE, **fields)
        assert [each.body for each in popped(answer)] == [b"1", b"2"]
        assert (answer.ext or {})["restNum"] == "1"
    popper.pop(2)
    answer = client.ask(RequestCode.PEEK_MESSAGE, **fields)
    assert [each.body for each in popped(answer)] == [b"3"]
    popper.pop()
    assert client.ask(RequestCode.PEEK_MESSAGE, **fields).code == ResponseCode.PULL_NOT_FOUND


def test_a_notice_that_there_is_something(both: Both) -> None:
    client, other = both.client(), both.client()
    both.publish("t", b"1")
    popper = Popper(client, "t")
    fields = popper.fields(pollTime=WAIT_MS, bornTime=1)
    assert (client.ask(RequestCode.NOTIFICATION, **fields).ext or {})["hasMsg"] == "true"
    popper.pop()
    none = client.ask(RequestCode.NOTIFICATION, **{**fields, "pollTime": 50})
    assert none.ext == {"hasMsg": "false", "pollingFull": "false"}
    client.send(frames.encode(client.request(RequestCode.NOTIFICATION, **fields)))
    both.send(other, "t", b"2")
    assert (client.next_command().ext or {})["hasMsg"] == "true"
    store, arrivals = both.services.store, both.services.arrivals
    until(lambda: not store.on_append.count(arrivals._appended))


def test_where_a_new_group_begins(both: Both) -> None:
    client = both.client()
    both.make_topic(client, "t", queues=2)
    for number in range(4):
        both.send(client, "t", b"%d" % number, queue=number % 2)
    assert [each.body for each in Popper(client, "t", "from-start").pop()] == [
        b"0", b"1", b"2", b"3",
    ]  # fmt: skip
    both.send(client, "t", b"4")
    young = Popper(client, "t", "from-end").pop(initMode=1)  # not even then, in a young topic
    assert [each.body for each in young] == [b"0", b"1", b"2", b"3", b"4"]
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="pulled", topic="t", queueId=0,
               commitOffset=1)  # fmt: skip
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="pulled", topic="t", queueId=1,
               commitOffset=2)  # fmt: skip
    pulled = Popper(client, "t", "pulled").pop()
    assert [each.body for each in pulled] == [b"2", b"3", b"4"]  # 3 was done, but 2 was not

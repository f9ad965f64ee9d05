"""What one dialect publishes, the other consumes."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace

import pytest

from penstock.core.ids import format_id
from penstock.core.units import HOUR
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.store.nsq_messages import id_of
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, body_crc, decode_all

from .conftest import SECONDS, Both, bodies, received


def unique_key(message: StoredMessage) -> str:
    return properties.value_of(message.properties, properties.UNIQUE_KEY) or ""


def test_nsq_publishes_and_rocketmq_pulls(both: Both) -> None:
    both.publish("orders", b"one", b"two")
    both.publish("orders", b"three")
    client = both.client()
    assert client.ask(RequestCode.GET_MAX_OFFSET, topic="orders", queueId=0).ext == {"offset": "3"}
    messages = both.pulled(client, "orders")
    assert [message.body for message in messages] == [b"one", b"two", b"three"]
    assert [(each.queue, each.queue_offset) for each in messages] == [(0, 0), (0, 1), (0, 2)]
    topic = both.topic("orders")
    assert [id_of(unique_key(each)) for each in messages] == [
        topic.log.id_base + offset for offset in range(3)
    ]
    now = time.time() * 1000
    assert all(now - 60_000 < each.store_ms <= now for each in messages)
    # The same message by its id, and from a later offset on, is the same bytes.
    again = both.pulled(client, "orders", offset=1)
    assert again == messages[1:]
    found = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=messages[1].physical_offset)
    assert list(decode_all(found.body)) == [messages[1]]


def test_rocketmq_sends_and_nsq_consumes(both: Both) -> None:
    client = both.client()
    both.make_topic(client, "orders")
    before = time.time_ns()
    both.send(client, "orders", b"one", queue=0, TAGS="a")
    both.send(client, "orders", b"two", queue=3)
    consumer = both.consumer("orders", max_in_flight=10)
    both.send(client, "orders", b"three", queue=1)
    messages = received(consumer, 3)
    assert [each.body for each in messages] == [b"one", b"two", b"three"]
    base = both.topic("orders").log.id_base
    assert [each.id for each in messages] == [format_id(base + offset) for offset in range(3)]
    assert all(before <= each.timestamp_ns <= time.time_ns() for each in messages)
    assert [each.attempts for each in messages] == [1, 1, 1]


def test_both_in_one_topic(both: Both) -> None:
    client = both.client()
    consumer = both.consumer("mixed", max_in_flight=100)
    expected = []
    for number in range(10):
        body = b"%d" % number
        expected.append(body)
        if number % 3:
            both.publish("mixed", body)
        else:
            both.send(client, "mixed", body)
    assert bodies(consumer, 10) == expected
    messages = both.pulled(client, "mixed")
    assert [each.body for each in messages] == expected
    assert [each.queue_offset for each in messages] == list(range(10))
    assert [each.physical_offset & 0xFF for each in messages] == list(range(10))


def test_a_topic_of_several_queues_takes_nsqs_publishes_in_turn(both: Both) -> None:
    client = both.client()
    both.make_topic(client, "spread", queues=3)
    for number in range(6):
        both.publish("spread", b"%d" % number)
    both.send(client, "spread", b"sent", queue=1)
    found = {queue: both.pulled(client, "spread", queue) for queue in range(3)}
    assert sorted(each.body for each in found[0] + found[2]) == [b"0", b"2", b"3", b"5"]
    assert [each.body for each in found[1]] == [b"1", b"4", b"sent"]
    for queue, messages in found.items():
        assert [(each.queue, each.queue_offset) for each in messages] == [
            (queue, offset) for offset in range(len(messages))
        ]
    consumer = both.consumer("spread", max_in_flight=100)
    assert bodies(consumer, 7) == [b"0", b"1", b"2", b"3", b"4", b"5", b"sent"]


def test_compressed_bodies_are_opened_for_nsq_only(both: Both) -> None:
    client = both.client()
    text = b"so long that a client packs it " * 200
    packed = zlib.compress(text)
    both.send(client, "packed", packed, sys_flag=1)
    both.send(client, "packed", b"not zlib", sys_flag=1)
    both.send(client, "packed", text, sys_flag=0)
    consumer = both.consumer("packed", max_in_flight=10)
    assert bodies(consumer, 3) == [text, b"not zlib", text]
    messages = both.pulled(client, "packed")
    assert [each.body for each in messages] == [packed, b"not zlib", text]
    assert [each.sys_flag & 1 for each in messages] == [1, 1, 0]


def test_filters_want_none_of_nsqs_messages(both: Both) -> None:
    client = both.client()
    both.publish("filtered", b"plain", b"plain too")
    both.send(client, "filtered", b"tagged", TAGS="a", size="7")
    for subscription, kind in (("a", "TAG"), ("a || b", "TAG"), ("size > 5", "SQL92")):
        answer = both.pull(client, "filtered", subscription=subscription, kind=kind)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert [each.body for each in decode_all(answer.body)] == [b"tagged"]
    none = both.pull(client, "filtered", subscription="b")
    assert none.code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_held_pull_gets_what_nsq_publishes(both: Both) -> None:
    client = both.client()
    both.publish("held", b"first")
    request = client.request(
        RequestCode.PULL_MESSAGE, consumerGroup="G", topic="held", queueId=0, queueOffset=1,
        maxMsgNums=32, sysFlag=6, commitOffset=0, suspendTimeoutMillis=int(SECONDS * 1000),
        subscription="*", subVersion=1,
    )  # fmt: skip
    client.send(frames.encode(request))
    both.publish("held", b"second")
    answer = client.next_command()
    assert [each.body for each in decode_all(answer.body)] == [b"second"]


def test_a_channel_before_and_after_the_messages(both: Both) -> None:
    client = both.client()
    both.send(client, "order", b"first")
    early = both.consumer("order", "early", max_in_flight=10)
    assert bodies(early, 1) == [b"first"]  # the first channel gets the backlog
    both.send(client, "order", b"second")
    assert bodies(early, 1) == [b"second"]
    late = both.consumer("order", "late", max_in_flight=10)
    both.send(client, "order", b"third")
    assert bodies(late, 1) == [b"third"]
    assert bodies(early, 1) == [b"third"]


def test_requeues_and_attempts(both: Both) -> None:
    client = both.client()
    for number in range(3):
        both.send(client, "again", b"%d" % number)
    consumer = both.consumer("again", max_in_flight=10)
    for _ in range(3):
        message = consumer.get(SECONDS)
        assert message is not None
        assert message.requeue(0, backoff=False)
    messages = received(consumer, 3)
    assert [(each.body, each.attempts) for each in messages] == [(b"0", 2), (b"1", 2), (b"2", 2)]


def test_many_of_one_size_and_of_mixed_sizes(both: Both) -> None:
    """Whole batches are translated at once, and partly delivered."""
    equal, mixed = [b"%04d" % n for n in range(500)], [b"x" * (n % 50) + b"." for n in range(500)]
    both.publish("equal", *equal)
    both.publish("mixed", *mixed)
    client = both.client()
    for topic, expected in (("equal", equal), ("mixed", mixed)):
        found: list[bytes] = []
        while len(found) < 500:
            messages = both.pulled(client, topic, offset=len(found))
            assert all(body_crc(each.body) for each in messages)
            found += [each.body for each in messages]
        assert found == expected


def test_topics_are_deleted_from_either_side(both: Both) -> None:
    client = both.client()
    both.send(client, "one", b"gone")
    both.publish("two", b"gone")
    both.http("POST", "/topic/delete?topic=one")
    assert both.pull(client, "one").code == ResponseCode.TOPIC_NOT_EXIST
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="two").code == ResponseCode.SUCCESS
    found = both.http("GET", "/stats?format=json")["topics"]
    assert not {"one", "two"} & {topic["topic_name"] for topic in found}
    both.publish("one", b"new")
    both.send(client, "two", b"new too")
    assert [each.body for each in both.pulled(client, "one")] == [b"new"]
    assert bodies(both.consumer("two"), 1) == [b"new too"]


def test_names_that_rocketmq_cannot_have_stay_nsqs(both: Both) -> None:
    both.publish("with.dots", b"one")
    both.publish("short#ephemeral", b"two")
    client = both.client()
    for name in ("with.dots", "short#ephemeral"):
        assert both.pull(client, name).code == ResponseCode.TOPIC_NOT_EXIST
    assert bodies(both.consumer("with.dots"), 1) == [b"one"]


def test_everything_survives_a_restart(both: Both) -> None:
    client = both.client()
    both.make_topic(client, "kept", queues=2)
    both.publish("kept", b"0")
    both.send(client, "kept", b"1", queue=1)
    both.publish("plain", b"p")
    before = [both.pulled(client, "kept", queue) for queue in range(2)]
    both.restart()
    client = both.client()
    both.publish("kept", b"2")
    both.publish("kept", b"3")
    both.send(client, "plain", b"q")
    found = [both.pulled(client, "kept", queue) for queue in range(2)]
    for messages, known in zip(found, before, strict=True):
        for message, old in zip(messages, known, strict=False):  # the port is another one
            assert replace(message, store_host=old.store_host, born_host=old.born_host) == old
    assert sorted(each.body for messages in found for each in messages) == [b"0", b"1", b"2", b"3"]
    assert bodies(both.consumer("kept", max_in_flight=9), 4) == [b"0", b"1", b"2", b"3"]
    assert [each.body for each in both.pulled(client, "plain")] == [b"p", b"q"]


@pytest.mark.parametrize("deletes", [False, True])
def test_what_waits_is_held_by_those_who_will_deliver_it(both: Both, deletes: bool) -> None:
    client = both.client()
    both.make_topic(client, "later")
    if deletes:
        for name in (names.TIMER_TOPIC, names.SCHEDULE_TOPIC):
            both.http("POST", f"/topic/create?topic={name}")
            both.http("POST", f"/topic/delete?topic={name}")
    both.send(client, "later", b"timed", TIMER_DELAY_SEC="600")
    both.send(client, "later", b"delayed", DELAY="18")
    both.run(both.services.timers.step())
    both.run(both.services.schedule.step())
    both.hold()
    for name in (names.TIMER_TOPIC, names.SCHEDULE_TOPIC):
        topic = both.topic(name)
        assert release.HOLDER in topic.groups, name
        assert topic.retention is not None
        assert topic.retention.time_ns == both.services.settings.file_reserved_time * HOUR, name


def test_the_log_of_a_rocketmq_topic_has_a_creation_id(both: Both) -> None:
    def creation_id() -> str:
        (queue,) = both.http("GET", "/log/offsets?topic=orders")["queues"]
        found: str = queue["log"]
        return found

    client = both.client()
    both.make_topic(client, "orders")
    both.send(client, "orders", b"one", queue=3)
    found = creation_id()
    assert found == format_id(both.topic("orders").log.id_base).decode()
    both.restart()
    client = both.client()
    assert creation_id() == found
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="orders").code == 0
    both.make_topic(client, "orders")
    both.send(client, "orders", b"two", queue=1)
    assert creation_id() > found

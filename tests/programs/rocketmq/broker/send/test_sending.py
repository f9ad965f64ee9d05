"""Sends over the wire: what is stored of them, of batches and retries, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from tests.unit.rocketmq.broker.peers import heartbeat
from tests.unit.rocketmq.broker.send.test_sending import REPLY
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import arrived, has_route, pull, send, send_batch, send_fields


@pytest.mark.parametrize("is_reply", [False, True])
def test_a_topic_is_in_the_routes_right_after_the_first_message_or_reply(
    client: RawClient, routes: RawClient, is_reply: bool
) -> None:
    assert not has_route(routes, "New")
    code = Code.SEND_REPLY_MESSAGE_V2 if is_reply else Code.SEND_MESSAGE_V2
    client.ask(code, b"first", **send_fields("New", i=REPLY))
    assert has_route(routes, "New")


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("CLUSTER\x01other\x02KEYS\x01k\x02WAIT\x01true\x02", "KEYS\x01k\x02"),
        ("TAGS\x01A\x02CLUSTER\x01DefaultCluster", "TAGS\x01A\x02"),
        ("POP_CK\x010 1 2 0 0 other 0 0\x02TAGS\x01A\x02", "TAGS\x01A\x02"),
        ("TAGS\x01A\x02POP_CK\x010 1 2 0 0 other 0 0", "TAGS\x01A\x02"),
        ("MY_POP_CK\x01c", "MY_POP_CK\x01c\x02"),
        ("WAIT\x01false\x02MY_CLUSTER\x01c\x02AWAIT\x01w", "MY_CLUSTER\x01c\x02AWAIT\x01w\x02"),
        ("", ""),
    ],
)
def test_a_message_tells_one_cluster_and_nothing_of_waiting(
    client: RawClient, sent: str, stored: str
) -> None:
    """A forwarded message has the cluster of the broker that it comes from, and its receipt if it
    was popped there; so have the later ones, which compiled code may take.
    """
    for _ in range(6):
        send(client, "TopicC", i=sent)
    _, messages = pull(client, "TopicC", 0, 0)
    assert {message.properties for message in messages} == {f"{stored}CLUSTER\x01DefaultCluster"}
    assert len(messages) == 6


@pytest.mark.parametrize(
    ("fields", "body", "code", "remark"),
    [
        ({"b": ""}, b"x", 1, "The specified topic is blank."),
        ({"b": "no good"}, b"x", 1, "illegal characters"),
        ({"b": "x" * 128}, b"x", 1, "longer than topic max length"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", 16, "is forbidden"),
        ({"b": "unknown", "c": "nothing"}, b"x", 17, "not exist, apply first please!"),
        ({"e": 4}, b"x", 1, "request queueId[4] is illegal"),
        ({"e": "many"}, b"x", 1, "not a number"),
        ({"g": 1 << 63}, b"x", 1, "bits"),
        ({"i": "k\x01" + "v" * 32767 + "\x02"}, b"x", 13, "the message is illegal"),
        ({"i": "k\x01" + "é" * 16384 + "\x02"}, b"x", 13, "the message is illegal"),
        ({"m": "true"}, b"garbage", 13, "batch"),
        ({}, b"x" * (4 * 1024 * 1024 + 1), 13, "the message is illegal"),
    ],
)
def test_what_is_refused(
    client: RawClient, fields: dict[str, Any], body: bytes, code: int, remark: str
) -> None:
    answer = send(client, "TopicR", body, **fields)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert send(client, "TopicR", b"fine").code == 0


def test_an_empty_body_and_a_large_one(client: RawClient) -> None:
    sizes = (0, 4 * 1024 * 1024)
    for size in sizes:
        assert send(client, "TopicO", b"x" * size).code == 0
    found = [len(pull(client, "TopicO", 0, offset)[1][0].body) for offset in (0, 1)]
    assert found == list(sizes)


@pytest.mark.parametrize("permission", [4, 0])
def test_what_is_sent_without_permission_is_stored(
    rocket: RocketBroker, client: RawClient, permission: int
) -> None:
    """As in Java, clients stay away once they know, and until then no message is lost."""
    send(client, "TopicP", b"0")
    config = rocket.services.topics.configs["TopicP"]
    config.perm = permission
    assert send(client, "TopicP", b"1").code == 0
    config.perm = 6
    rocket.settings.broker_permission = permission
    for number in range(2, 12):
        client.tell(Code.SEND_MESSAGE_V2, b"%d" % number, **send_fields("TopicP"))
    assert send(client, "NewTopicP").code == 0
    rocket.settings.broker_permission = 6
    _, messages = pull(client, "TopicP", 0, 0)
    assert [message.body for message in messages] == [b"%d" % n for n in range(12)]


def test_a_broker_without_permission_refuses_messages_of_ordered_topics(
    rocket: RocketBroker, client: RawClient
) -> None:
    send(client, "TopicP")
    rocket.services.topics.configs["TopicP"].order = True
    rocket.settings.broker_permission = 4
    answer = send(client, "TopicP")
    remark = f"the broker[{rocket.settings.broker_ip1}] sending message is forbidden"
    assert (answer.code, answer.remark) == (16, remark)
    rocket.settings.broker_permission = 6
    assert send(client, "TopicP").code == 0


# --- batches (RocketMQ spec 3.6) ------------------------------------------------------------------


def test_a_batch_is_stored_as_messages_of_its_queue(client: RawClient) -> None:
    send(client, "TopicB", b"before", queue=2)
    batch = [BatchedMessage(b"m%d" % n, f"TAGS\x01T{n}\x02WAIT\x01true", n) for n in range(5)]
    text = "UNIQ_KEY\x01u\x02CLUSTER\x01other\x02INSTANCE_ID\x01i"
    answer = send_batch(client, "TopicB", batch_body.encode(batch), text)
    assert (answer.code, answer.int64("queueOffset")) == (0, 1)
    _, messages = pull(client, "TopicB", 2, 1)
    assert [(m.body, m.flag) for m in messages] == [(b"m%d" % n, n) for n in range(5)]
    assert answer.text("msgId").split(",") == [m.offset_id for m in messages]
    assert messages[3].properties == (
        "TAGS\x01T3\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02INSTANCE_ID\x01i"
    )


JAVAS = "KEYS\x01k{n}\x02UNIQ_KEY\x017F{n}\x02WAIT\x01true\x02TAGS\x01Tag"


@pytest.mark.parametrize(
    ("count", "sizes", "of_each", "text", "stored"),
    [
        (2, 1, JAVAS, "WAIT\x01true\x02",
         f"{JAVAS}\x02CLUSTER\x01DefaultCluster\x02WAIT\x01true"),
        (9, 1, JAVAS, "WAIT\x01true\x02",
         f"{JAVAS}\x02CLUSTER\x01DefaultCluster\x02WAIT\x01true"),
        (6, 1, "POP_CK\x01{n} 1 2\x02TAGS\x01T{n}\x02", "POP_CK\x01a\x02",
         "TAGS\x01T{n}\x02CLUSTER\x01DefaultCluster"),
        (6, 2, "POP_CK\x01{n} 1 2\x02TAGS\x01T{n}\x02", "POP_CK\x01a\x02",
         "TAGS\x01T{n}\x02CLUSTER\x01DefaultCluster"),
    ],
    ids=["two of Java's", "nine of Java's", "popped before", "popped, of several layouts"],
)  # fmt: skip
def test_batches_of_javas_client_are_stored_as_javas_broker_stores_them(
    client: RawClient, count: int, sizes: int, of_each: str, text: str, stored: str
) -> None:
    """Those that were popped elsewhere bring no receipt."""
    batch = [BatchedMessage(b"x" * (n % sizes), of_each.format(n=n)) for n in range(count)]
    assert send_batch(client, "Java", batch_body.encode(batch), text).code == 0
    _, messages = pull(client, "Java", 2, 0)
    assert [message.properties for message in messages] == [
        stored.format(n=n) for n in range(count)
    ]


@pytest.mark.parametrize("size", [1, 3], ids=["of one layout", "of several"])
def test_a_batch_may_have_as_many_messages_as_its_size_allows(client: RawClient, size: int) -> None:
    """Upstream's example of split batches sends 13,275 at once."""
    count = 13_275
    send(client, "TopicM", b"before", queue=2)
    batch = [BatchedMessage(b"%05d" % n + b"x" * (n % size)) for n in range(count)]
    answer = send_batch(client, "TopicM", batch_body.encode(batch))
    assert (answer.code, answer.int64("queueOffset")) == (0, 1), answer.remark
    ids = answer.text("msgId").split(",")
    assert len(set(ids)) == count
    for offset in (1, 4096, 4097, count):
        _, (message, *_) = pull(client, "TopicM", 2, offset)
        assert message.body.startswith(b"%05d" % (offset - 1))
        assert (message.queue_offset, message.offset_id) == (offset, ids[offset - 1])


def test_batches_that_are_too_large_in_another_way(rocket: RocketBroker, client: RawClient) -> None:
    """By their ids, which fit no header, or by their own properties: each message has a copy."""
    for sizes in (1, 2):
        batch = [BatchedMessage(b"x" * (n % sizes)) for n in range(3000)]
        answer = send_batch(client, "H", batch_body.encode(batch), "a\x01" + "x" * 30_000)
        assert answer.code == 13
        words = "characters of properties for each of 3000 messages of a batch are too many"
        assert words in (answer.remark or "")
    rocket.settings.max_message_size = 12 * 1024 * 1024
    body = batch_body.encode([BatchedMessage(b"")]) * (12 * 1024 * 1024 // 22)
    answer = send_batch(client, "H", body)
    remark = "a batch of 571950 messages is too large: the limit is 506414"
    assert (answer.code, answer.remark) == (13, remark)


# --- retries --------------------------------------------------------------------------------------


@pytest.fixture
def settings(settings: BrokerSettings) -> BrokerSettings:
    """Every level is due at once."""
    settings.message_delay_level = "0s " * 18
    return settings


def test_a_message_that_always_fails_ends_as_a_dead_letter(client: RawClient) -> None:
    assert client.ask(Code.HEART_BEAT, heartbeat("c1", "CG")).code == 0
    first = send(client, "T", b"body").text("msgId")
    message = arrived(client, "T", 0)
    retries = 3
    for tried in range(retries + 1):
        answer = client.ask(
            Code.CONSUMER_SEND_MSG_BACK, offset=message.physical_offset, group="CG", delayLevel=0,
            originMsgId=first, originTopic="T", unitMode="false", maxReconsumeTimes=retries,
        )  # fmt: skip
        assert answer.code == 0
        is_dead = tried == retries
        message = arrived(client, *(("%DLQ%CG", 0) if is_dead else ("%RETRY%CG", tried)))
        found = properties.parse(message.properties)
        assert (message.body, message.reconsume_times) == (b"body", tried + 1)
        assert (found["ORIGIN_MESSAGE_ID"], found["TAGS"]) == (first, "TagA")
        assert found["RETRY_TOPIC"] == "T"
        if not is_dead:
            assert found["DELAY"] == str(3 + tried)
            assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("%RETRY%CG", "0")
    assert pull(client, "%RETRY%CG", 0, retries)[0].code == 19


@pytest.mark.parametrize(("level", "topic"), [(0, "%RETRY%CG"), (-1, "%DLQ%CG")])
def test_a_group_that_never_sent_a_heartbeat_finds_its_topics_right_after_the_answer(
    client: RawClient, routes: RawClient, level: int, topic: str
) -> None:
    send(client, "T", b"body")
    offset = arrived(client, "T", 0).physical_offset
    assert not has_route(routes, topic)
    answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, offset=offset, group="CG", delayLevel=level)
    assert answer.code == 0
    assert has_route(routes, topic)

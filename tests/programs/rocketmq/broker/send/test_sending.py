"""What is refused, and what becomes of a batch (RocketMQ spec 2.1, 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from tests.programs.rocketmq.broker.pull.test_pulling import pull, send
from tools.harness.rocketmq.raw_client import RawClient

BATCH = 320


@pytest.fixture
def client(connect: Callable[[], RawClient]) -> RawClient:
    return connect()


def test_a_topic_is_in_the_routes_right_after_its_first_message(
    client: RawClient, routes: RawClient
) -> None:
    assert routes.ask(105, topic="New").code == 17
    send(client, "New", b"first", queue=0)
    assert routes.ask(105, topic="New").code == 0


def test_a_batch_is_stored_as_messages_of_its_queue(client: RawClient) -> None:
    send(client, "TopicB", b"before", queue=2)
    bodies = [BatchedMessage(b"m%d" % n, f"TAGS\x01T{n}\x02WAIT\x01true", n) for n in range(5)]
    answer = client.ask(
        BATCH, batch_body.encode(bodies), a="PG", b="TopicB", c="TBW102", d=4, e=2, f=0,
        g=1, h=0, i="UNIQ_KEY\x01u\x02CLUSTER\x01other\x02INSTANCE_ID\x01i", j=0, k="false",
        m="true",
    )  # fmt: skip
    assert (answer.code, answer.ext and answer.ext["queueOffset"]) == (0, "1")
    assert answer.ext is not None
    _, messages = pull(client, "TopicB", 2, 1)
    assert [m.body for m in messages] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert [m.flag for m in messages] == [0, 1, 2, 3, 4]
    assert answer.ext["msgId"].split(",") == [m.offset_id for m in messages]
    assert messages[3].properties == (
        "TAGS\x01T3\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02INSTANCE_ID\x01i"
    )


def test_batches_of_javas_client_are_stored_as_javas_broker_stores_them(client: RawClient) -> None:
    texts = [f"KEYS\x01k{n}\x02UNIQ_KEY\x017F{n}\x02WAIT\x01true\x02TAGS\x01Tag" for n in range(9)]
    for count in (2, 9):
        bodies = [BatchedMessage(b"a", text) for text in texts[:count]]
        assert (
            batch(client, f"Java{count}", batch_body.encode(bodies), "WAIT\x01true\x02").code == 0
        )
        _, messages = pull(client, f"Java{count}", 2, 0)
        assert [message.properties for message in messages] == [
            f"{text}\x02CLUSTER\x01DefaultCluster\x02WAIT\x01true" for text in texts[:count]
        ]


def test_popped_messages_of_a_batch_bring_no_receipt(client: RawClient) -> None:
    for sizes in (1, 2):
        bodies = [BatchedMessage(b"x" * (n % sizes), f"POP_CK\x01{n} 1 2\x02TAGS\x01T{n}\x02")
                  for n in range(6)]  # fmt: skip
        topic = f"Popped{sizes}"
        assert batch(client, topic, batch_body.encode(bodies), "POP_CK\x01a\x02").code == 0
        _, messages = pull(client, topic, 2, 0)
        assert [message.properties for message in messages] == [
            f"TAGS\x01T{n}\x02CLUSTER\x01DefaultCluster" for n in range(6)
        ]


def batch(client: RawClient, topic: str, body: bytes, text: str = "", queue: int = 2) -> Command:
    """Send a batch to a topic of 4 queues; ``text`` has the batch's properties."""
    return client.ask(
        BATCH, body, a="PG", b=topic, c="TBW102", d=4, e=queue, f=0, g=1, h=0, i=text, j=0,
        k="false", m="true",
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 3], ids=["of one layout", "of several"])
def test_a_batch_may_have_as_many_messages_as_its_size_allows(client: RawClient, size: int) -> None:
    """Upstream's example of split batches sends 13,275 at once."""
    count = 13_275
    send(client, "TopicM", b"before", queue=2)
    bodies = [BatchedMessage(b"%05d" % n + b"x" * (n % size)) for n in range(count)]
    answer = batch(client, "TopicM", batch_body.encode(bodies))
    assert (answer.code, answer.ext and answer.ext["queueOffset"]) == (0, "1"), answer.remark
    assert answer.ext is not None
    ids = answer.ext["msgId"].split(",")
    assert len(set(ids)) == count
    for offset in (1, 4096, 4097, count):
        _, (message, *_) = pull(client, "TopicM", 2, offset)
        assert message.body.startswith(b"%05d" % (offset - 1))
        assert (message.queue_offset, message.offset_id) == (offset, ids[offset - 1])


def test_a_batch_is_refused_where_its_ids_fit_no_header(
    rocket: RocketBroker, client: RawClient
) -> None:
    rocket.settings.max_message_size = 12 * 1024 * 1024
    body = batch_body.encode([BatchedMessage(b"")]) * (12 * 1024 * 1024 // 22)
    answer = batch(client, "TopicH", body)
    assert (answer.code, answer.remark) == (
        13, "a batch of 571950 messages is too large: the limit is 506414"
    )  # fmt: skip


def test_a_batch_is_refused_where_its_own_properties_would_fill_the_disk(client: RawClient) -> None:
    """Each of its messages gets a copy of them."""
    text = "a\x01" + "x" * 30_000
    for bodies in (
        [BatchedMessage(b"")] * 3000,
        [BatchedMessage(b"x" * (n % 2)) for n in range(3000)],
    ):
        answer = batch(client, "TopicH", batch_body.encode(bodies), text)
        assert answer.code == 13
        assert "characters of properties for each of 3000 messages of a batch are too many" in (
            answer.remark or ""
        )


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
    was popped there; so have the later ones, which may take the fast path.
    """
    for _ in range(6):
        send(client, "TopicC", b"x", i=sent)
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
        ({"e": "many"}, b"x", 1, "no number"),
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
    assert send(client, "TopicO", b"").code == 0
    assert send(client, "TopicO", b"x" * 4 * 1024 * 1024).code == 0
    _, messages = pull(client, "TopicO", 0, 0)
    assert [len(m.body) for m in messages] == [0]
    _, messages = pull(client, "TopicO", 0, 1)
    assert [len(m.body) for m in messages] == [4 * 1024 * 1024]


@pytest.mark.parametrize("permission", [4, 0])
def test_what_is_sent_without_permission_is_stored(
    rocket: RocketBroker, client: RawClient, permission: int
) -> None:
    """As in Java, clients stay away once they know, and until then no message is lost."""
    send(client, "TopicP", b"0")
    config = rocket.services.topics.get("TopicP")
    assert config is not None
    config.perm = permission
    assert send(client, "TopicP", b"1").code == 0
    config.perm = 6
    rocket.settings.broker_permission = permission
    for number in range(2, 12):
        client.tell(310, b"%d" % number, a="PG", b="TopicP", c="TBW102", d=4, e=0, f=0, g=1, h=0)
    assert send(client, "NewTopicP", b"x").code == 0
    rocket.settings.broker_permission = 6
    _, messages = pull(client, "TopicP", 0, 0)
    assert [message.body for message in messages] == [b"%d" % n for n in range(12)]


def test_a_broker_without_permission_refuses_messages_of_ordered_topics(
    rocket: RocketBroker, client: RawClient
) -> None:
    send(client, "TopicP", b"0")
    config = rocket.services.topics.get("TopicP")
    assert config is not None
    config.order, rocket.settings.broker_permission = True, 4
    answer = send(client, "TopicP", b"x")
    assert (answer.code, answer.remark) == (
        16, f"the broker[{rocket.settings.broker_ip1}] sending message is forbidden"
    )  # fmt: skip
    rocket.settings.broker_permission = 6
    assert send(client, "TopicP", b"x").code == 0


def test_one_way_messages_are_stored_and_not_answered(client: RawClient) -> None:
    send(client, "TopicQ", b"first")
    client.tell(310, b"quiet", a="PG", b="TopicQ", c="TBW102", d=4, e=0, f=0, g=1, h=0, j=0)
    _, messages = pull(client, "TopicQ", 0, 0)
    assert [m.body for m in messages] == [b"first", b"quiet"]
    assert client.requests == []

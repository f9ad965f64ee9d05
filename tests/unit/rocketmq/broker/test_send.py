"""What is refused, and what becomes of a batch (reference 2.1, 3.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol import batch_body
from penstock.rocketmq.protocol.batch_body import BatchedMessage
from tests.unit.rocketmq.raw_client import RawClient

from .test_pull import pull, send

BATCH = 320


@pytest.fixture
def client(connect: Callable[[], RawClient]) -> RawClient:
    return connect()


def test_a_batch_is_stored_as_messages_of_its_queue(client: RawClient) -> None:
    send(client, "TopicB", b"before", queue=2)
    bodies = [BatchedMessage(b"m%d" % n, f"TAGS\x01T{n}\x02WAIT\x01true", n) for n in range(5)]
    answer = client.ask(
        BATCH, batch_body.encode(bodies), a="PG", b="TopicB", c="TBW102", d=4, e=2, f=0,
        g=1, h=0, i="UNIQ_KEY\x01u\x02", j=0, k="false", m="true",
    )  # fmt: skip
    assert (answer.code, answer.ext and answer.ext["queueOffset"]) == (0, "1")
    assert answer.ext is not None
    _, messages = pull(client, "TopicB", 2, 1)
    assert [m.body for m in messages] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert [m.flag for m in messages] == [0, 1, 2, 3, 4]
    assert answer.ext["msgId"].split(",") == [m.offset_id for m in messages]
    assert messages[3].properties == "TAGS\x01T3\x02CLUSTER\x01DefaultCluster"


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
    client: RawClient, fields: dict[str, object], body: bytes, code: int, remark: str
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


def test_permissions_of_topic_and_broker(rocket: RocketBroker, client: RawClient) -> None:
    send(client, "TopicP", b"x")
    config = rocket.node.topics.get("TopicP")
    assert config is not None
    config.perm = 4
    assert send(client, "TopicP", b"x").code == 16
    config.perm = 6
    rocket.settings.broker_permission = 4
    assert send(client, "TopicP", b"x").code == 16
    rocket.settings.broker_permission = 6
    assert send(client, "TopicP", b"x").code == 0


def test_one_way_messages_are_stored_and_not_answered(client: RawClient) -> None:
    from penstock.rocketmq.protocol import frames
    from penstock.rocketmq.protocol.command import ONE_WAY

    send(client, "TopicQ", b"first")
    request = client.request(
        310, b"quiet", a="PG", b="TopicQ", c="TBW102", d=4, e=0, f=0, g=1, h=0, j=0, flag_=ONE_WAY
    )
    client.send(frames.encode(request))
    _, messages = pull(client, "TopicQ", 0, 0)
    assert [m.body for m in messages] == [b"first", b"quiet"]
    assert client.requests == []

"""Sends and pulls through real connections, as RocketMQ spec 4.3 tables them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]

SEND, PULL, SEND_V2 = 10, 11, 310
FOR_LONG_MS = 600_000
"""A pull's time that is never up: no client of a test waits so long for an answer."""


def send(client: RawClient, topic: str, body: bytes, queue: int = 0, **fields: Any) -> Command:
    named: dict[str, Any] = {
        "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1700000000000,
        "h": 0, "i": "KEYS\x01k\x02TAGS\x01TagA\x02WAIT\x01true", "j": 0, "k": "false",
    }  # fmt: skip
    return client.ask(SEND_V2, body, **{**named, **fields})


def pull_fields(topic: str, queue: int, offset: int, **fields: Any) -> dict[str, Any]:
    return {
        "consumerGroup": "CG", "topic": topic, "queueId": queue, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 0, "subscription": "*", **fields,
    }  # fmt: skip


def pull(
    client: RawClient, topic: str, queue: int, offset: int, **fields: Any
) -> tuple[Command, list[StoredMessage]]:
    answer = client.ask(PULL, **pull_fields(topic, queue, offset, **fields))
    return answer, list(decode_all(answer.body))


@pytest.fixture
def client(connect: Connect) -> RawClient:
    return connect()


def test_what_was_sent_is_pulled(client: RawClient) -> None:
    answers = [send(client, "TopicA", b"body %d" % n, queue=1) for n in range(3)]
    assert [a.ext["queueOffset"] for a in answers if a.ext] == ["0", "1", "2"]
    assert all(a.ext and a.ext["queueId"] == "1" and len(a.ext["msgId"]) == 32 for a in answers)
    assert answers[0].ext is not None
    assert answers[0].ext["MSG_REGION"] == "DefaultRegion"
    answer, messages = pull(client, "TopicA", 1, 0)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3",
    }  # fmt: skip
    assert [m.body for m in messages] == [b"body 0", b"body 1", b"body 2"]
    assert [m.offset_id for m in messages] == [a.ext["msgId"] for a in answers if a.ext]
    assert messages[0].properties == "KEYS\x01k\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"
    assert messages[0].born_host.port > 0


@pytest.mark.parametrize("serialization", list(Serialization))
def test_both_serialisations_and_the_long_names(
    client: RawClient, serialization: Serialization
) -> None:
    answer = client.ask(
        SEND, b"x", producerGroup="PG", topic="TopicL", defaultTopic="TBW102",
        defaultTopicQueueNums=2, queueId=-1, sysFlag=0, bornTimestamp=5, flag=7,
        serialization_=serialization,
    )  # fmt: skip
    assert (answer.code, answer.serialization) == (0, serialization)
    assert answer.ext is not None
    queue = int(answer.ext["queueId"])
    assert queue in (0, 1)
    fields = pull_fields("TopicL", queue, 0)
    pulled = client.ask(PULL, serialization_=serialization, **fields)
    (message,) = decode_all(pulled.body)
    assert (pulled.serialization, message.flag, message.born_ms) == (serialization, 7, 5)


def test_the_codes_when_there_is_nothing(client: RawClient) -> None:
    send(client, "TopicN", b"x", queue=0)
    for queue, offset, expected in [
        (1, 0, (19, "NO_MESSAGE_IN_QUEUE", "0")),
        (1, 5, (21, "NO_MESSAGE_IN_QUEUE", "0")),
        (0, 1, (19, "OFFSET_OVERFLOW_ONE", "1")),
        (0, 9, (21, "OFFSET_OVERFLOW_BADLY", "1")),
        (0, -3, (21, "OFFSET_TOO_SMALL", "0")),
    ]:
        answer, _ = pull(client, "TopicN", queue, offset)
        assert answer.ext is not None
        assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == expected


def test_tags_are_filtered_and_the_offset_moves_on(client: RawClient) -> None:
    for tag in ("TagA", "TagB", "TagA"):
        send(client, "TopicT", tag.encode(), i=f"TAGS\x01{tag}\x02")
    answer, messages = pull(client, "TopicT", 0, 0, subscription="TagB || TagC")
    assert [m.body for m in messages] == [b"TagB"]
    assert answer.ext is not None
    assert answer.ext["nextBeginOffset"] == "3"
    answer, messages = pull(client, "TopicT", 0, 2, subscription="TagB")
    assert (answer.code, answer.remark, messages) == (20, "NO_MATCHED_MESSAGE", [])
    assert answer.ext is not None
    assert answer.ext["nextBeginOffset"] == "3"
    _, messages = pull(
        client, "TopicT", 0, 0, subscription="TAGS IN ('TagA')", expressionType="SQL92"
    )
    assert [m.body for m in messages] == [b"TagA", b"TagA"]
    answer, _ = pull(client, "TopicT", 0, 0, subscription="a >", expressionType="SQL92")
    assert answer.code == 23


def wait_until_held(rocket: RocketBroker, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(rocket.services.held_pulls) != count:
        assert time.monotonic() < deadline, len(rocket.services.held_pulls)
        time.sleep(0.01)


def test_a_pull_waits_for_a_message_that_it_wants(
    rocket: RocketBroker, client: RawClient, connect: Connect
) -> None:
    send(client, "TopicW", b"first")
    waiting = connect()
    fields = pull_fields(
        "TopicW", 0, 1, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS, subscription="TagB"
    )
    request = waiting.request(PULL, **fields)
    waiting.send(frames.encode(request))
    wait_until_held(rocket, 1)
    send(client, "TopicW", b"not wanted", i="TAGS\x01TagA\x02")
    send(client, "TopicW", b"wanted", i="TAGS\x01TagB\x02")
    answer = waiting.next_command()
    assert (answer.opaque, answer.code) == (request.opaque, 0)
    assert [m.body for m in decode_all(answer.body)] == [b"wanted"]
    assert answer.ext is not None
    assert answer.ext["nextBeginOffset"] == "3"


def test_a_pull_that_waits_in_vain_is_told_so(client: RawClient) -> None:
    send(client, "TopicV", b"first")
    start = time.monotonic()
    answer, _ = pull(client, "TopicV", 0, 1, sysFlag=6, suspendTimeoutMillis=200)
    assert time.monotonic() - start > 0.15
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")


def test_pulls_of_a_connection_that_ends_are_forgotten(
    rocket: RocketBroker, client: RawClient, connect: Connect
) -> None:
    send(client, "TopicE", b"first")
    waiting = connect()
    fields = pull_fields("TopicE", 0, 1, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    waiting.send(frames.encode(waiting.request(PULL, **fields)))
    wait_until_held(rocket, 1)
    waiting.close()
    wait_until_held(rocket, 0)


def test_sizes_and_numbers_bound_a_pull(client: RawClient) -> None:
    for _ in range(40):
        send(client, "TopicS", b"x" * 20_000)
    answer, messages = pull(client, "TopicS", 0, 0)
    assert len(answer.body) <= 256 * 1024
    assert 10 <= len(messages) <= 13
    _, messages = pull(client, "TopicS", 0, 0, maxMsgNums=3)
    assert len(messages) == 3
    _, messages = pull(client, "TopicS", 0, 0, maxMsgBytes=1)
    assert len(messages) == 1


def test_a_commit_comes_with_the_pull(rocket: RocketBroker, client: RawClient) -> None:
    send(client, "TopicC", b"x")
    pull(client, "TopicC", 0, 0, sysFlag=5, commitOffset=1)
    assert rocket.services.offsets.query("TopicC", "CG", 0) == 1


def test_who_may_not_pull_is_told_why(rocket: RocketBroker, client: RawClient) -> None:
    send(client, "TopicF", b"x")
    assert pull(client, "unknown", 0, 0)[0].code == 17
    assert pull(client, "TopicF", 4, 0)[0].code == 1
    assert pull(client, "TopicF", -1, 0)[0].code == 1
    assert pull(client, "TopicF", 0, 0, sysFlag=0)[0].code == 24
    assert client.ask(PULL, topic="TopicF").code == 1
    config = rocket.services.topics.get("TopicF")
    assert config is not None
    config.perm = 2
    assert pull(client, "TopicF", 0, 0)[0].code == 16

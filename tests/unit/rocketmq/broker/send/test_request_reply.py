"""Replies on their way to the producer that asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    answered_later,
    hand_over,
    heartbeat,
    request,
)

TEXT = properties.join({"MSG_TYPE": "reply", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "asker"})


def reply(services: Services, body: bytes = b"answer", **fields: Any) -> Command:
    topic = f"{services.settings.broker_cluster_name}_REPLY_TOPIC"
    services.topics.make_inner(topic, 1, 0)
    short = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0,
             "i": TEXT, "j": 0, "k": "false", "m": "false", **fields}  # fmt: skip
    asked = request(325, body, **short)
    return asyncio.run(answered_later(services, FakePeer().connection, asked))


def ask(services: Services, code: int = 0) -> FakePeer:
    peer = FakePeer(lambda told: Command(code))
    hand_over(services, peer.connection, request(34, heartbeat("asker", producers=("PG",))))
    return peer


def test_the_producer_gets_it_and_it_is_stored(services: Services) -> None:
    peer = ask(services)
    answer = reply(services)
    assert answer.code == 0
    (told,) = peer.told
    assert (told.code, told.body) == (326, b"answer")
    assert set(told.ext) == {
        "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
        "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "bornHost",
        "storeHost", "storeTimestamp",
    }  # fmt: skip
    assert told.ext["bornHost"] == "127.0.0.1:5000"
    assert told.ext["unitMode"] == "false"
    found = properties.parse(told.ext["properties"])
    assert found.pop("PUSH_REPLY_TIME") == str(services.now_ms)
    assert found == properties.parse(TEXT)
    topic = told.ext["topic"]
    assert services.store.bounds(topic, 0) == (0, 1)
    message = services.store.message_at(topic, 0, 0)
    assert message is not None
    assert (message.body, message.properties, message.offset_id) == (
        b"answer", TEXT, (answer.ext or {})["msgId"],
    )  # fmt: skip
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "queueId": "0",
                          "msgId": message.offset_id, "queueOffset": "0"}  # fmt: skip


def test_without_storing_the_id_is_0(services: Services) -> None:
    services.settings.store_reply_message_enable = False
    peer = ask(services)
    answer = reply(services, e=-1)
    assert peer.told[0].ext["queueId"] == "-1"
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "queueId": "0",
                          "msgId": "0", "queueOffset": "0"}  # fmt: skip
    assert services.store.bounds(peer.told[0].ext["topic"], 0) == (0, 0)


def test_a_producer_that_is_gone(services: Services) -> None:
    answer = reply(services)
    assert answer.code == 1
    assert answer.remark == "push reply message fail, channel of <asker> not found."
    assert (answer.ext or {})["queueOffset"] == "0", "it is stored all the same"
    peer = ask(services, code=1)
    assert "fail: it answered 1" in (reply(services).remark or "")
    services.heartbeats.connection_ended(peer.connection)
    hand_over(services, FakePeer().connection, request(34, heartbeat("asker", producers=("PG",))))
    assert "fail: nobody there" in (reply(services).remark or "")


def test_a_reply_to_nobody(services: Services) -> None:
    answer = reply(services, i="")
    assert answer.code == 1
    assert answer.remark == "reply message properties[REPLY_TO_CLIENT] is null"


def test_too_large(services: Services) -> None:
    services.settings.max_message_size = 5
    with pytest.raises(RefusedError, match="too large") as refusal:
        reply(services)
    assert refusal.value.code == 13

"""Topics as the tools show them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import queue_key, store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, heartbeat, request

PEER = FakePeer()


def subscribe(controller: Controller, group: str, topic: str) -> None:
    """A member of a group comes online that wants one topic."""
    peer = FakePeer()
    member = Member("c", peer.connection, peer.address, Language.JAVA, 409, 0)
    controller.clients.beat(Heartbeat.parse(heartbeat("c", group, topic=topic)), member)


def groups_of(controller: Controller, topic: str) -> list[str]:
    asked = request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic=topic)
    answer = answered(controller, PEER.connection, asked)
    return sorted(fastjson.loads(answer.body)["groupList"])


def subscription_of(controller: Controller, **fields: Any) -> dict[str, Any]:
    asked = request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **fields)
    answer = answered(controller, PEER.connection, asked)
    value = fastjson.loads(answer.body)
    assert isinstance(value, dict)
    return value


async def test_bounds_of_each_queue_and_its_newest_message(controller: Controller) -> None:
    controller.topics.put(TopicConfig("T", 2, 3), controller.now_ms)
    await store(controller, "T", 1, b"a", b"b")
    asked = request(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
    answer = answered(controller, PEER.connection, asked)
    nothing = {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert answer.ext is None
    assert fastjson.loads(answer.body) == {
        "offsetTable": {
            queue_key(controller, "T", 0): nothing,
            queue_key(controller, "T", 1): {**nothing, "lastUpdateTimestamp": controller.now_ms,
                                      "maxOffset": 2},
            queue_key(controller, "T", 2): nothing,
        }
    }  # fmt: skip


def test_a_topic_that_is_not_there(controller: Controller) -> None:
    asked = request(RequestCode.GET_TOPIC_STATS_INFO, topic="Nope")
    with pytest.raises(RefusedError, match=r"^topic\[Nope\] not exist$") as refused:
        hand_over(controller, PEER.connection, asked)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_who_consumes_a_topic_are_those_online_and_those_with_offsets(
    controller: Controller,
) -> None:
    assert groups_of(controller, "T") == []
    controller.offsets.commit("T", "away", 0, 5)
    controller.offsets.commit("T", "both", 0, 5)
    subscribe(controller, "both", "T")
    subscribe(controller, "online", "T")
    subscribe(controller, "other", "U")
    assert groups_of(controller, "T") == ["away", "both", "online"]


def test_the_topics_in_which_a_group_has_offsets(controller: Controller) -> None:
    controller.offsets.commit("T", "G", 0, 5)
    controller.offsets.commit("U", "G", 3, 1)
    controller.offsets.commit("V", "H", 0, 1)
    asked = request(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="G")
    value = fastjson.loads(answered(controller, PEER.connection, asked).body)
    assert value == {"brokerAddr": str(controller.address), "topicList": ["T", "U"]}


def test_what_a_group_subscribes_of_a_topic(controller: Controller) -> None:
    subscribe(controller, "G", "T")
    found = subscription_of(controller, group="G", topic="T")
    assert (found["group"], found["topic"]) == ("G", "T")
    assert found["subscriptionData"]["subString"] == "*"
    assert subscription_of(controller, group="G", topic="U") == {"group": "G", "topic": "U"}
    assert subscription_of(controller, group="nobody", topic="T") == {
        "group": "nobody",
        "topic": "T",
    }
    assert subscription_of(controller, group="G") == {"group": "G"}

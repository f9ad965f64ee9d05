"""Topics as the tools show them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import queue_key, store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, heartbeat, request

PEER = FakePeer()


def subscribe(services: Services, group: str, topic: str) -> None:
    """A member of a group comes online that wants one topic."""
    peer = FakePeer()
    member = Member("c", peer.connection, peer.address, Language.JAVA, 409, 0)
    services.clients.beat(Heartbeat.parse(heartbeat("c", group, topic=topic)), member)


def groups_of(services: Services, topic: str) -> list[str]:
    asked = request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic=topic)
    answer = answered(services, PEER.connection, asked)
    return sorted(fastjson.loads(answer.body)["groupList"])


def subscription_of(services: Services, **fields: Any) -> dict[str, Any]:
    asked = request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **fields)
    answer = answered(services, PEER.connection, asked)
    value = fastjson.loads(answer.body)
    assert isinstance(value, dict)
    return value


async def test_bounds_of_each_queue_and_its_newest_message(services: Services) -> None:
    services.topics.put(TopicConfig("T", 2, 3), services.now_ms)
    await store(services, "T", 1, b"a", b"b")
    asked = request(RequestCode.GET_TOPIC_STATS_INFO, topic="T")
    answer = answered(services, PEER.connection, asked)
    nothing = {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert answer.ext is None
    assert fastjson.loads(answer.body) == {
        "offsetTable": {
            queue_key(services, "T", 0): nothing,
            queue_key(services, "T", 1): {**nothing, "lastUpdateTimestamp": services.now_ms,
                                      "maxOffset": 2},
            queue_key(services, "T", 2): nothing,
        }
    }  # fmt: skip


def test_a_topic_that_is_not_there(services: Services) -> None:
    asked = request(RequestCode.GET_TOPIC_STATS_INFO, topic="Nope")
    with pytest.raises(RefusedError, match=r"^topic\[Nope\] not exist$") as refused:
        hand_over(services, PEER.connection, asked)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_who_consumes_a_topic_are_those_online_and_those_with_offsets(
    services: Services,
) -> None:
    assert groups_of(services, "T") == []
    services.offsets.commit("T", "away", 0, 5)
    services.offsets.commit("T", "both", 0, 5)
    subscribe(services, "both", "T")
    subscribe(services, "online", "T")
    subscribe(services, "other", "U")
    assert groups_of(services, "T") == ["away", "both", "online"]


def test_the_topics_in_which_a_group_has_offsets(services: Services) -> None:
    services.offsets.commit("T", "G", 0, 5)
    services.offsets.commit("U", "G", 3, 1)
    services.offsets.commit("V", "H", 0, 1)
    asked = request(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="G")
    value = fastjson.loads(answered(services, PEER.connection, asked).body)
    assert value == {"brokerAddr": str(services.address), "topicList": ["T", "U"]}


def test_what_a_group_subscribes_of_a_topic(services: Services) -> None:
    subscribe(services, "G", "T")
    found = subscription_of(services, group="G", topic="T")
    assert (found["group"], found["topic"]) == ("G", "T")
    assert found["subscriptionData"]["subString"] == "*"
    assert subscription_of(services, group="G", topic="U") == {"group": "G", "topic": "U"}
    assert subscription_of(services, group="nobody", topic="T") == {
        "group": "nobody",
        "topic": "T",
    }
    assert subscription_of(services, group="G") == {"group": "G"}

"""A look into a queue."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.admin import queue_view
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.names import SCHEDULE_TOPIC
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, heartbeat, request

JAVAS_FILTER = (
    '{\n\t"bloomFilterData":{\n\t\t"bitNum":0,\n\t\t"bitPos":[]\n\t},\n\t"bornTime":<NOW>,\n\t'
    '"clientVersion":1,\n\t"consumerGroup":"S",\n\t"dead":false,\n\t"deadTime":0,\n\t'
    '"expression":"a > 1",\n\t"expressionType":"SQL92",\n\t"topic":"T"\n}'
)
"""The text of Java's broker, without the bits of its Bloom filter."""


@pytest.fixture
def topic(services: Services) -> str:
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    return "T"


def look(
    services: Services, topic: str, queue: int, index: int, count: int, **fields: Any
) -> Command:
    asked = request(RequestCode.QUERY_CONSUME_QUEUE, topic=topic, queueId=queue, index=index,
                    count=count, **fields)  # fmt: skip
    answer: Command = answered(services, FakePeer().connection, asked)
    return answer


def body(answer: Command) -> dict[str, Any]:
    value = fastjson.loads(answer.body)
    assert isinstance(value, dict)
    return value


async def test_place_size_and_tag_of_each_message(services: Services, topic: str) -> None:
    tagged = await store(services, topic, 1, b"one", b"two", TAGS="TagA")
    plain = await store(services, topic, 1, b"three")
    value = body(look(services, topic, 1, 1, 10))
    sizes = [
        len(services.store.frame(each.physical_offset) or b"") for each in (tagged[1], plain[0])
    ]
    assert value == {
        "maxQueueIndex": 3,
        "minQueueIndex": 0,
        "queueData": [
            {"eval": False, "physicOffset": tagged[1].physical_offset, "physicSize": sizes[0],
             "tagsCode": java_hash("TagA")},
            {"eval": False, "physicOffset": plain[0].physical_offset, "physicSize": sizes[1],
             "tagsCode": 0},
        ],
    }  # fmt: skip
    assert len(body(look(services, topic, 1, 0, 2))["queueData"]) == 2
    assert body(look(services, topic, 1, 0, -1))["queueData"] == []


async def test_no_more_than_a_limit_at_once(
    services: Services, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_view, "COUNT_MAX", 3)
    monkeypatch.setattr(queue_view, "_READ_BYTES", 1)
    await store(services, topic, 0, *[b"x"] * 5)
    assert len(body(look(services, topic, 0, 1, 2**31 - 1))["queueData"]) == 3


async def test_the_code_of_a_delayed_message_is_when_it_is_due(services: Services) -> None:
    services.topics.put(TopicConfig(SCHEDULE_TOPIC, 18, 18), services.now_ms)
    await store(services, SCHEDULE_TOPIC, 2, b"later", TAGS="TagA", DELAY="3")
    entry = body(look(services, SCHEDULE_TOPIC, 2, 0, 1))["queueData"][0]
    assert entry["tagsCode"] == services.now_ms + 10_000


async def test_an_index_that_the_queue_does_not_have(services: Services, topic: str) -> None:
    await store(services, topic, 0, b"one")
    for index in (-1, 1):
        answer = look(services, topic, 0, index, 0)
        assert (answer.code, answer.remark) == (0, f"Index {index} of 0@T is not exist!")
        assert body(answer) == {"maxQueueIndex": 1, "minQueueIndex": 0, "queueData": []}


@pytest.mark.parametrize(("name", "queue"), [("Nope", 0), ("T", 77), ("T", -1)])
def test_a_queue_that_is_not_there(services: Services, topic: str, name: str, queue: int) -> None:
    with pytest.raises(RefusedError, match=f"^{queue}@{name} is not exist!$") as refused:
        look(services, name, queue, 0, 1)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_what_a_group_subscribes_is_told_as_well(services: Services, topic: str) -> None:
    def beat(client: str, group: str, text: str, kind: str) -> None:
        peer = FakePeer()
        member = Member(client, peer.connection, peer.address, Language.JAVA, 409, 0)
        data = Heartbeat.parse(heartbeat(client, group, topic=topic, text=text, kind=kind))
        services.clients.beat(data, member, services.now_ms)

    beat("c1", "G", "TagA", "TAG")
    beat("c2", "S", "a > 1", "SQL92")
    tags = body(look(services, topic, 0, 0, 1, consumerGroup="G"))
    assert tags["filterData"] == "null"
    assert tags["subscriptionData"]["codeSet"] == [java_hash("TagA")]
    sql = body(look(services, topic, 0, 0, 1, consumerGroup="S"))
    assert sql["filterData"] == JAVAS_FILTER.replace("<NOW>", str(services.now_ms))
    nobody = body(look(services, topic, 0, 0, 1, consumerGroup="H"))
    assert nobody["filterData"] == "H@T is not online!"
    assert "subscriptionData" not in nobody

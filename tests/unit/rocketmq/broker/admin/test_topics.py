"""Topics as the tools show them: bounds, groups, and a look into a queue."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.admin import queue_view
from penstock.rocketmq.broker.names import SCHEDULE_TOPIC
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.filling import queue_key, store
from tests.unit.rocketmq.broker.peers import ask, ask_json, join, refused


async def test_bounds_of_each_queue_and_its_newest_message(services: Services) -> None:
    services.topics.put(TopicConfig("T", 2, 3), services.now_ms)
    await store(services, "T", 1, b"a", b"b")
    answer = ask(services, Code.GET_TOPIC_STATS_INFO, topic="T")
    assert answer.ext is None
    nothing = {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    newest = {**nothing, "lastUpdateTimestamp": services.now_ms, "maxOffset": 2}
    table = enumerate((nothing, newest, nothing))
    assert fastjson.loads(answer.body) == {
        "offsetTable": {queue_key(services, "T", queue): each for queue, each in table}
    }


def test_who_consumes_a_topic_are_those_online_and_those_with_offsets(
    services: Services,
) -> None:
    def groups() -> list[str]:
        return sorted(ask_json(services, Code.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")["groupList"])

    assert groups() == []
    for group in ("away", "both"):
        services.offsets.commit("T", group, 0, 5)
    for group, topic in (("both", "T"), ("online", "T"), ("other", "U")):
        join(services, "c", group, topic=topic)
    assert groups() == ["away", "both", "online"]


def test_the_topics_in_which_a_group_has_offsets(services: Services) -> None:
    for topic, group, queue in (("T", "G", 0), ("U", "G", 3), ("V", "H", 0)):
        services.offsets.commit(topic, group, queue, 5)
    found = ask_json(services, Code.QUERY_TOPICS_BY_CONSUMER, group="G")
    assert found == {"brokerAddr": str(services.address), "topicList": ["T", "U"]}


def test_what_a_group_subscribes_of_a_topic(services: Services) -> None:
    join(services, "c", "G", topic="T")
    code = Code.QUERY_SUBSCRIPTION_BY_CONSUMER
    found = ask_json(services, code, group="G", topic="T")
    assert found.pop("subscriptionData")["subString"] == "*"
    assert found == {"group": "G", "topic": "T"}
    for fields in ({"group": "G", "topic": "U"}, {"group": "nobody", "topic": "T"}, {"group": "G"}):
        assert ask_json(services, code, **fields) == fields


# --- a look into a queue --------------------------------------------------------------------------


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


def look(services: Services, queue: int, index: int, count: int, **fields: Any) -> Any:
    fields = {"topic": "T", "queueId": queue, "index": index, "count": count, **fields}
    return ask_json(services, Code.QUERY_CONSUME_QUEUE, **fields)


async def test_place_size_and_tag_of_each_message(services: Services, topic: str) -> None:
    _, tagged = await store(services, topic, 1, b"one", b"two", TAGS="TagA")
    (plain,) = await store(services, topic, 1, b"three")
    assert look(services, 1, 1, 10) == {
        "maxQueueIndex": 3,
        "minQueueIndex": 0,
        "queueData": [
            {"eval": False, "physicOffset": each.physical_offset, "tagsCode": code,
             "physicSize": len(services.store.frame(each.physical_offset) or b"")}
            for each, code in ((tagged, java_hash("TagA")), (plain, 0))
        ],
    }  # fmt: skip
    assert len(look(services, 1, 0, 2)["queueData"]) == 2
    assert look(services, 1, 0, -1)["queueData"] == []


async def test_no_more_than_a_limit_at_once(
    services: Services, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_view, "COUNT_MAX", 3)
    monkeypatch.setattr(queue_view, "_READ_BYTES", 1)
    await store(services, topic, 0, *[b"x"] * 5)
    assert len(look(services, 0, 1, 2**31 - 1)["queueData"]) == 3


async def test_the_code_of_a_delayed_message_is_when_it_is_due(services: Services) -> None:
    services.topics.put(TopicConfig(SCHEDULE_TOPIC, 18, 18), services.now_ms)
    await store(services, SCHEDULE_TOPIC, 2, b"later", TAGS="TagA", DELAY="3")
    (entry,) = look(services, 2, 0, 1, topic=SCHEDULE_TOPIC)["queueData"]
    assert entry["tagsCode"] == services.now_ms + 10_000


async def test_an_index_that_the_queue_does_not_have(services: Services, topic: str) -> None:
    await store(services, topic, 0, b"one")
    for index in (-1, 1):
        fields = {"topic": "T", "queueId": 0, "index": index, "count": 0}
        answer = ask(services, Code.QUERY_CONSUME_QUEUE, **fields)
        assert (answer.code, answer.remark) == (0, f"Index {index} of 0@T is not exist!")
        value = {"maxQueueIndex": 1, "minQueueIndex": 0, "queueData": []}
        assert fastjson.loads(answer.body) == value


def test_what_a_group_subscribes_is_told_as_well(services: Services, topic: str) -> None:
    join(services, "c1", "G", text="TagA")
    join(services, "c2", "S", text="a > 1", kind="SQL92")
    tags, sql, nobody = (look(services, 0, 0, 1, consumerGroup=group) for group in "GSH")
    assert tags["filterData"] == "null"
    assert tags["subscriptionData"]["codeSet"] == [java_hash("TagA")]
    assert sql["filterData"] == JAVAS_FILTER.replace("<NOW>", str(services.now_ms))
    assert nobody["filterData"] == "H@T is not online!"
    assert "subscriptionData" not in nobody


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        ((Code.GET_TOPIC_STATS_INFO, {"topic": "Nope"}), ResponseCode.TOPIC_NOT_EXIST,
         r"^topic\[Nope\] not exist$"),
        *(((Code.QUERY_CONSUME_QUEUE, {"topic": name, "queueId": queue, "index": 0, "count": 1}),
           ResponseCode.SYSTEM_ERROR, f"^{queue}@{name} is not exist!$")
          for name, queue in (("Nope", 0), ("T", 77), ("T", -1))),
    ],
)  # fmt: skip
def test_a_topic_or_queue_that_is_not_there(
    services: Services, topic: str, request_: tuple[int, dict[str, Any]], code: int, words: str
) -> None:
    with refused(code, words):
        ask(services, request_[0], **request_[1])

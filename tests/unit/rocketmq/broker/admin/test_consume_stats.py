"""How far groups are, and how far behind."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop.pop_orders import OpenBatch
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.broker.state.offsets import FAR
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import queue_key, store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, request

from .test_topic_stats import subscribe

CONNECTION = FakePeer().connection


@pytest.fixture
def topic(services: Services) -> str:
    """A topic with two queues."""
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    return "T"


def stats_of(services: Services, **fields: Any) -> dict[str, Any]:
    asked = request(RequestCode.GET_CONSUME_STATS, **fields)
    value = fastjson.loads(answered(services, CONNECTION, asked).body)
    assert isinstance(value, dict)
    return value


def all_stats(services: Services, is_order: str) -> dict[str, Any]:
    asked = request(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=is_order)
    value = fastjson.loads(answered(services, CONNECTION, asked).body)
    assert isinstance(value, dict)
    return value


def clone(services: Services, **fields: Any) -> None:
    asked = request(RequestCode.CLONE_GROUP_OFFSET, **fields)
    assert answered(services, CONNECTION, asked).code == 0


async def test_offsets_of_a_group(services: Services, topic: str, clock: FakeClock) -> None:
    first_ms = services.now_ms
    await store(services, topic, 0, b"1")
    clock.advance(SECOND)
    await store(services, topic, 0, b"2", b"3")
    services.offsets.commit(topic, "G", 0, 1)
    expected = {
        "consumeTps": 0.0,
        "offsetTable": {
            queue_key(services, topic, 0):
                {"brokerOffset": 3, "consumerOffset": 1, "lastTimestamp": first_ms},
            queue_key(services, topic, 1):
                {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0},
        },
    }  # fmt: skip
    assert stats_of(services, consumerGroup="G", topic=topic) == expected
    assert stats_of(services, consumerGroup="G") == expected
    assert stats_of(services, consumerGroup="H") == {"consumeTps": 0.0, "offsetTable": {}}
    services.offsets.commit(topic, "G", 0, 3)
    last = stats_of(services, consumerGroup="G")["offsetTable"][queue_key(services, topic, 0)]
    assert last["lastTimestamp"] == first_ms + 1000


def test_topics_that_a_group_gave_up_or_that_are_gone_are_left_out(
    services: Services, topic: str
) -> None:
    services.offsets.commit(topic, "G", 0, 1)
    services.offsets.commit("gone", "G", 0, 1)
    assert len(stats_of(services, consumerGroup="G")["offsetTable"]) == 2
    subscribe(services, "G", "U")
    assert stats_of(services, consumerGroup="G")["offsetTable"] == {}
    assert stats_of(services, consumerGroup="G", topic=topic)["offsetTable"] == {}


def test_the_rate_is_of_the_last_minute(services: Services, topic: str, clock: FakeClock) -> None:
    services.stats.tick()
    services.offsets.commit(topic, "G", 0, 0)
    services.stats.got(topic, "G", 30, 1)
    clock.advance(10 * SECOND)
    services.stats.tick()
    assert stats_of(services, consumerGroup="G")["consumeTps"] == 3.0


async def test_all_groups_of_the_broker(services: Services, topic: str) -> None:
    await store(services, topic, 1, b"1", b"2", b"3")
    services.topics.put(TopicConfig("ordered", 1, 1, order=True), services.now_ms)
    for group in ("G", "idle"):
        services.groups.put(GroupConfig(group), services.now_ms)
    services.offsets.commit(topic, "G", 1, 1)
    services.offsets.commit("ordered", "G", 0, 0)
    value = all_stats(services, "false")
    found = {name: table for group in value["consumeStatsList"] for name, table in group.items()}
    assert (value["brokerAddr"], value["totalDiff"]) == (str(services.address), 2)
    assert found["idle"] == []
    tables = [each["offsetTable"] for each in found["G"]]
    assert [len(table) for table in tables] == [2, 1]
    assert tables[0][queue_key(services, topic, 1)]["consumerOffset"] == 1
    value = all_stats(services, "true")
    found = {name: table for group in value["consumeStatsList"] for name, table in group.items()}
    assert [list(each["offsetTable"]) for each in found["G"]] == [
        [queue_key(services, "ordered", 0)]
    ]


def test_whether_only_ordered_topics_are_wanted_must_be_said(services: Services) -> None:
    asked = request(RequestCode.GET_BROKER_CONSUME_STATS)
    with pytest.raises(BodyError, match="isOrder is missing"):
        hand_over(services, CONNECTION, asked)


async def test_the_times_that_a_backlog_spans(
    services: Services, topic: str, clock: FakeClock
) -> None:
    clock.set_wall(1_795_218_354_882 * 1_000_000)
    for body in (b"1", b"2", b"3"):
        await store(services, topic, 0, body)
        clock.advance(SECOND)
    services.offsets.commit(topic, "G", 0, 2)
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group="G")
    answer = answered(services, CONNECTION, asked)
    full, empty = fastjson.loads(answer.body)["consumeTimeSpanSet"]
    assert [full[f"{name}TimeStamp"] - 1_795_218_354_882 for name in ("min", "consume", "max")] == [
        0, 1000, 2000,
    ]  # fmt: skip
    assert full["delayTime"] == 1000
    assert full["messageQueue"] == {
        "brokerName": services.settings.broker_name, "queueId": 0, "topic": topic,
    }  # fmt: skip
    assert full["minTimeStampStr"].startswith("2026-11-2")
    assert full["minTimeStampStr"].endswith(":54:882")
    assert (empty["minTimeStamp"], empty["consumeTimeStamp"], empty["maxTimeStamp"]) == (-1, -1, -1)
    assert empty["maxTimeStampStr"].endswith(":59:999")
    assert empty["delayTime"] == 0


async def test_the_times_for_a_group_that_never_consumed(
    services: Services, topic: str, clock: FakeClock
) -> None:
    await store(services, topic, 0, b"1")
    clock.advance(5 * SECOND)
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group="new")
    answer = answered(services, CONNECTION, asked)
    span = fastjson.loads(answer.body)["consumeTimeSpanSet"][0]
    assert span["consumeTimeStamp"] == span["minTimeStamp"]
    assert span["delayTime"] == 5000


def test_no_times_of_a_topic_that_is_not_there(services: Services) -> None:
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="Nope", group="G")
    with pytest.raises(RefusedError, match=r"topic\[Nope\] not exist") as refused:
        hand_over(services, CONNECTION, asked)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_least_offsets_of_all_groups(services: Services, topic: str) -> None:
    for group, offsets in {"A": (5, 9), "B": (3, 8), "C": (1, 1)}.items():
        for queue, offset in enumerate(offsets):
            services.offsets.commit(topic, group, queue, offset)

    def least(**fields: Any) -> Any:
        asked = request(RequestCode.QUERY_CORRECTION_OFFSET, topic=topic, **fields)
        return fastjson.loads(answered(services, CONNECTION, asked).body)

    assert least(compareGroup="A") == {"correctionOffsets": {0: 1, 1: 1}}
    assert least(compareGroup="A", filterGroups="C,X") == {"correctionOffsets": {0: 3, 1: 8}}
    assert least(compareGroup="C", filterGroups="C") == {"correctionOffsets": {0: FAR, 1: FAR}}


def test_offsets_are_copied_to_another_group(services: Services, topic: str) -> None:
    services.topics.put(TopicConfig("U", 1, 1), services.now_ms)
    services.offsets.commit(topic, "G", 0, 5)
    services.offsets.commit("U", "G", 0, 7)
    services.offsets.commit("gone", "G", 0, 9)
    clone(services, srcGroup="G", destGroup="one", topic=topic, offline="false")
    assert services.offsets.topics_of("one") == [topic]
    clone(services, srcGroup="G", destGroup="all", offline="false")
    assert services.offsets.topics_of("all") == [topic, "U"]
    assert services.offsets.query("U", "all", 0) == 7
    subscribe(services, "G", "U")
    clone(services, srcGroup="G", destGroup="online", offline="false")
    assert services.offsets.topics_of("online") == ["U"]
    clone(services, srcGroup="G", destGroup="offline", offline="true")
    assert services.offsets.topics_of("offline") == [topic, "U"]


async def test_a_group_that_pops_in_order_goes_on_where_the_other_is(
    services: Services, topic: str
) -> None:
    services.offsets.commit(topic, "G", 0, 2)
    services.offsets.commit(topic, "popping", 0, 5)
    ordered, key = services.pops.ordered, (topic, "popping")
    ordered.table.enter(key)
    ordered.table.put(key, 0, OpenBatch([5, 6], 1000, 60_000))
    clone(services, srcGroup="G", destGroup="popping", topic=topic, offline="true")
    ordered.finish(key, 0, [5, 6], 1000)  # too late: that would be behind messages not had yet
    assert services.offsets.query(topic, "popping", 0) == 2

"""How far groups are, and how far behind."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.pop.pop_orders import OpenBatch
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
def topic(controller: Controller) -> str:
    """A topic with two queues."""
    controller.topics.put(TopicConfig("T", 2, 2), controller.now_ms)
    return "T"


def stats_of(controller: Controller, **fields: Any) -> dict[str, Any]:
    asked = request(RequestCode.GET_CONSUME_STATS, **fields)
    value = fastjson.loads(answered(controller, CONNECTION, asked).body)
    assert isinstance(value, dict)
    return value


def all_stats(controller: Controller, is_order: str) -> dict[str, Any]:
    asked = request(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=is_order)
    value = fastjson.loads(answered(controller, CONNECTION, asked).body)
    assert isinstance(value, dict)
    return value


def clone(controller: Controller, **fields: Any) -> None:
    asked = request(RequestCode.CLONE_GROUP_OFFSET, **fields)
    assert answered(controller, CONNECTION, asked).code == 0


async def test_offsets_of_a_group(controller: Controller, topic: str, clock: FakeClock) -> None:
    first_ms = controller.now_ms
    await store(controller, topic, 0, b"1")
    clock.advance(SECOND)
    await store(controller, topic, 0, b"2", b"3")
    controller.offsets.commit(topic, "G", 0, 1)
    expected = {
        "consumeTps": 0.0,
        "offsetTable": {
            queue_key(controller, topic, 0):
                {"brokerOffset": 3, "consumerOffset": 1, "lastTimestamp": first_ms},
            queue_key(controller, topic, 1):
                {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0},
        },
    }  # fmt: skip
    assert stats_of(controller, consumerGroup="G", topic=topic) == expected
    assert stats_of(controller, consumerGroup="G") == expected
    assert stats_of(controller, consumerGroup="H") == {"consumeTps": 0.0, "offsetTable": {}}
    controller.offsets.commit(topic, "G", 0, 3)
    last = stats_of(controller, consumerGroup="G")["offsetTable"][queue_key(controller, topic, 0)]
    assert last["lastTimestamp"] == first_ms + 1000


def test_topics_that_a_group_gave_up_or_that_are_gone_are_left_out(
    controller: Controller, topic: str
) -> None:
    controller.offsets.commit(topic, "G", 0, 1)
    controller.offsets.commit("gone", "G", 0, 1)
    assert len(stats_of(controller, consumerGroup="G")["offsetTable"]) == 2
    subscribe(controller, "G", "U")
    assert stats_of(controller, consumerGroup="G")["offsetTable"] == {}
    assert stats_of(controller, consumerGroup="G", topic=topic)["offsetTable"] == {}


def test_the_rate_is_of_the_last_minute(
    controller: Controller, topic: str, clock: FakeClock
) -> None:
    controller.stats.tick()
    controller.offsets.commit(topic, "G", 0, 0)
    controller.stats.got(topic, "G", 30, 1)
    clock.advance(10 * SECOND)
    controller.stats.tick()
    assert stats_of(controller, consumerGroup="G")["consumeTps"] == 3.0


async def test_all_groups_of_the_broker(controller: Controller, topic: str) -> None:
    await store(controller, topic, 1, b"1", b"2", b"3")
    controller.topics.put(TopicConfig("ordered", 1, 1, order=True), controller.now_ms)
    for group in ("G", "idle"):
        controller.groups.put(GroupConfig(group), controller.now_ms)
    controller.offsets.commit(topic, "G", 1, 1)
    controller.offsets.commit("ordered", "G", 0, 0)
    value = all_stats(controller, "false")
    found = {name: table for group in value["consumeStatsList"] for name, table in group.items()}
    assert (value["brokerAddr"], value["totalDiff"]) == (str(controller.address), 2)
    assert found["idle"] == []
    tables = [each["offsetTable"] for each in found["G"]]
    assert [len(table) for table in tables] == [2, 1]
    assert tables[0][queue_key(controller, topic, 1)]["consumerOffset"] == 1
    value = all_stats(controller, "true")
    found = {name: table for group in value["consumeStatsList"] for name, table in group.items()}
    assert [list(each["offsetTable"]) for each in found["G"]] == [
        [queue_key(controller, "ordered", 0)]
    ]


def test_whether_only_ordered_topics_are_wanted_must_be_said(controller: Controller) -> None:
    asked = request(RequestCode.GET_BROKER_CONSUME_STATS)
    with pytest.raises(BodyError, match="isOrder is missing"):
        hand_over(controller, CONNECTION, asked)


async def test_the_times_that_a_backlog_spans(
    controller: Controller, topic: str, clock: FakeClock
) -> None:
    clock.set_wall(1_795_218_354_882 * 1_000_000)
    for body in (b"1", b"2", b"3"):
        await store(controller, topic, 0, body)
        clock.advance(SECOND)
    controller.offsets.commit(topic, "G", 0, 2)
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group="G")
    answer = answered(controller, CONNECTION, asked)
    full, empty = fastjson.loads(answer.body)["consumeTimeSpanSet"]
    assert [full[f"{name}TimeStamp"] - 1_795_218_354_882 for name in ("min", "consume", "max")] == [
        0, 1000, 2000,
    ]  # fmt: skip
    assert full["delayTime"] == 1000
    assert full["messageQueue"] == {
        "brokerName": controller.settings.broker_name, "queueId": 0, "topic": topic,
    }  # fmt: skip
    assert full["minTimeStampStr"].startswith("2026-11-2")
    assert full["minTimeStampStr"].endswith(":54:882")
    assert (empty["minTimeStamp"], empty["consumeTimeStamp"], empty["maxTimeStamp"]) == (-1, -1, -1)
    assert empty["maxTimeStampStr"].endswith(":59:999")
    assert empty["delayTime"] == 0


async def test_the_times_for_a_group_that_never_consumed(
    controller: Controller, topic: str, clock: FakeClock
) -> None:
    await store(controller, topic, 0, b"1")
    clock.advance(5 * SECOND)
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group="new")
    answer = answered(controller, CONNECTION, asked)
    span = fastjson.loads(answer.body)["consumeTimeSpanSet"][0]
    assert span["consumeTimeStamp"] == span["minTimeStamp"]
    assert span["delayTime"] == 5000


def test_no_times_of_a_topic_that_is_not_there(controller: Controller) -> None:
    asked = request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="Nope", group="G")
    with pytest.raises(RefusedError, match=r"topic\[Nope\] not exist") as refused:
        hand_over(controller, CONNECTION, asked)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_least_offsets_of_all_groups(controller: Controller, topic: str) -> None:
    for group, offsets in {"A": (5, 9), "B": (3, 8), "C": (1, 1)}.items():
        for queue, offset in enumerate(offsets):
            controller.offsets.commit(topic, group, queue, offset)

    def least(**fields: Any) -> Any:
        asked = request(RequestCode.QUERY_CORRECTION_OFFSET, topic=topic, **fields)
        return fastjson.loads(answered(controller, CONNECTION, asked).body)

    assert least(compareGroup="A") == {"correctionOffsets": {0: 1, 1: 1}}
    assert least(compareGroup="A", filterGroups="C,X") == {"correctionOffsets": {0: 3, 1: 8}}
    assert least(compareGroup="C", filterGroups="C") == {"correctionOffsets": {0: FAR, 1: FAR}}


def test_offsets_are_copied_to_another_group(controller: Controller, topic: str) -> None:
    controller.topics.put(TopicConfig("U", 1, 1), controller.now_ms)
    controller.offsets.commit(topic, "G", 0, 5)
    controller.offsets.commit("U", "G", 0, 7)
    controller.offsets.commit("gone", "G", 0, 9)
    clone(controller, srcGroup="G", destGroup="one", topic=topic, offline="false")
    assert controller.offsets.topics_of("one") == [topic]
    clone(controller, srcGroup="G", destGroup="all", offline="false")
    assert controller.offsets.topics_of("all") == [topic, "U"]
    assert controller.offsets.query("U", "all", 0) == 7
    subscribe(controller, "G", "U")
    clone(controller, srcGroup="G", destGroup="online", offline="false")
    assert controller.offsets.topics_of("online") == ["U"]
    clone(controller, srcGroup="G", destGroup="offline", offline="true")
    assert controller.offsets.topics_of("offline") == [topic, "U"]


async def test_a_group_that_pops_in_order_goes_on_where_the_other_is(
    controller: Controller, topic: str
) -> None:
    controller.offsets.commit(topic, "G", 0, 2)
    controller.offsets.commit(topic, "popping", 0, 5)
    ordered, key = controller.pops.ordered, (topic, "popping")
    ordered.table.enter(key)
    ordered.table.put(key, 0, OpenBatch([5, 6], 1000, 60_000))
    clone(controller, srcGroup="G", destGroup="popping", topic=topic, offline="true")
    ordered.finish(key, 0, [5, 6], 1000)  # too late: that would be behind messages not had yet
    assert controller.offsets.query(topic, "popping", 0) == 2

from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.consume_stats import broker_consume_stats, consume_stats
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, QUEUE, FakeAdmin, answer

STATS = {
    "consumeTps": 1.5,
    "offsetTable": {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 7}},
}


def test_offsets_of_all_brokers_are_gathered() -> None:
    admin = FakeAdmin({Code.GET_CONSUME_STATS: answer(STATS)})
    found = admin.do(consume_stats(admin, "G", "T"))
    assert (found.tps, found.lag) == (1.5, 5)
    assert [queue.topic for queue in found.queues] == ["T"]
    assert admin.fields(Code.GET_CONSUME_STATS) == [{"consumerGroup": "G", "topic": "T"}]


def test_a_group_that_never_consumed_is_named_so() -> None:
    admin = FakeAdmin({Code.GET_CONSUME_STATS: answer({"offsetTable": {}})})
    with pytest.raises(Refused, match=r"CODE: 206 .* maybe the consumer not consume any message"):
        admin.do(consume_stats(admin, "G"))


def test_all_groups_of_a_broker_with_a_part_for_each_topic() -> None:
    told = {"consumeStatsList": [{"G": [STATS, STATS]}, {"H": []}], "totalDiff": 10}
    admin = FakeAdmin({Code.GET_BROKER_CONSUME_STATS: answer(told)})
    found = admin.do(broker_consume_stats(admin, BROKER))
    assert ([group for group, _ in found.groups], found.lag) == (["G", "G"], 10)
    assert admin.fields(Code.GET_BROKER_CONSUME_STATS) == [{"isOrder": "false"}]

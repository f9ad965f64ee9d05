from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.consume_stats import consume_stats
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import QUEUE, FakeAdmin, answer

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

from __future__ import annotations

from penstock.rocketmq.client.admin.topics import groups_of, topic_stats
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, QUEUE, FakeAdmin, answer

BOUNDS = {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}


def test_bounds_by_queue() -> None:
    admin = FakeAdmin({Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {QUEUE: BOUNDS}})})
    assert admin.do(topic_stats(admin, BROKER, "T")) == {MessageQueue("a", 0, "T"): BOUNDS}


def test_groups_are_sorted() -> None:
    admin = FakeAdmin({Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["h", "g"]})})
    assert admin.do(groups_of(admin, BROKER, "T")) == ["g", "h"]

from __future__ import annotations

from penstock.rocketmq.mqadmin.commands import stats
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import QUEUE, FakeAdmin, answer, in_json, printed

SPAN = {"statsMinute": {"sum": 3, "tps": 0.5}, "statsHour": {"sum": 7}, "statsDay": {"sum": 0}}


def _admin(*groups: str) -> FakeAdmin:
    lag = {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 0}}
    return FakeAdmin(
        {
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["T", "%DLQ%G"]}),
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": list(groups)}),
            Code.VIEW_BROKER_STATS_DATA: answer(SPAN),
            Code.GET_CONSUME_STATS: answer({"offsetTable": lag}),
        }
    )


def test_a_topic_with_a_group() -> None:
    admin = _admin("G")
    assert in_json(stats.all_stats, admin)["topics"] == [
        {"topic": "T", "group": "G", "accumulation": 5, "inTps": 0.5, "outTps": 0.5,
         "in24Hours": 7, "out24Hours": 7}
    ]  # fmt: skip
    keys = [each["statsKey"] for each in admin.fields(Code.VIEW_BROKER_STATS_DATA)]
    assert keys == ["T", "T@G"]


def test_a_topic_that_nobody_consumes() -> None:
    assert printed(stats.all_stats, _admin()).splitlines()[1].split() == [
        "T", "0", "0.50", "7", "NO_CONSUMER",
    ]  # fmt: skip


def test_only_active_ones_or_one() -> None:
    admin = _admin("G")
    admin.answers[Code.VIEW_BROKER_STATS_DATA] = answer(
        {name: {"sum": 0, "tps": 0.0} for name in SPAN}
    )
    assert in_json(stats.all_stats, admin, activeTopic="")["topics"] == []
    assert in_json(stats.all_stats, admin, topic="U")["topics"] == []

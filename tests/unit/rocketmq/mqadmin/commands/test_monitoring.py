from __future__ import annotations

from penstock.rocketmq.mqadmin.commands import monitoring
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import QUEUE, FakeAdmin, answer, in_json, printed

INFO = {
    "properties": {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1"},
    "mqTable": {QUEUE: {"cachedMsgCount": 1}},
}


def _look(admin: FakeAdmin) -> FakeAdmin:
    lag = {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 0}}
    admin.answers |= {
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["%RETRY%G", "T"]}),
        Code.GET_CONSUME_STATS: answer({"offsetTable": lag}),
        Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": [{"clientId": "c"}]}),
        Code.GET_CONSUMER_RUNNING_INFO: answer(INFO),
    }
    return admin


async def _round(admin: object, given: Given, out: Output) -> None:
    assert isinstance(admin, FakeAdmin)
    await monitoring.look(admin, out)


def test_a_round() -> None:
    results = in_json(_round, _look(FakeAdmin()))["results"]
    assert results[0]["undoneMsgsTotal"] == 5
    texts = [each["text"] for each in results]
    assert "ConsumerGroup: G, Subscription different" in texts[1]
    assert "ClientId: c, c MessageQueue [topic=T, brokerName=a, queueId=0] can't" in texts[2]
    lines = printed(_round, _look(FakeAdmin())).splitlines()
    assert (lines[0][-10:], lines[-1][-8:]) == ("beginRound", "endRound")

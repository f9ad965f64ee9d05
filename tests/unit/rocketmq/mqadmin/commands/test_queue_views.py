from __future__ import annotations

from penstock.rocketmq.mqadmin.commands import queue_views
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, answer, in_json, printed

FOUND = {
    "maxQueueIndex": 2, "minQueueIndex": 0, "filterData": "bloom",
    "subscriptionData": {"topic": "T", "subString": "*"},
    "queueData": [{"physicOffset": 1, "physicSize": 2, "tagsCode": 3, "eval": True, "msg": "m"}],
}  # fmt: skip


def test_the_entries_of_a_queue() -> None:
    admin = FakeAdmin({Code.QUERY_CONSUME_QUEUE: answer(FOUND)})
    text = printed(queue_views.query, admin, topic="T", queue="0", index="1", consumer="G")
    assert text.startswith('Subscription data: \n{\n\t"subString":"*",\n\t"topic":"T"\n}\n====')
    assert "Filter data: \nbloom\n" in text
    assert "Queue data: \nmax: 2, min: 0\n" in text
    assert (
        "idx: 1\nConsumeQueueData{physicOffset=1, physicSize=2, tagsCode=3, "
        "extendDataJson='null', bitMap='null', eval=true, msg='m'}\n"
    ) in text
    assert admin.fields(Code.QUERY_CONSUME_QUEUE)[0]["consumerGroup"] == "G"
    found = in_json(queue_views.query, admin, topic="T", queue="0", index="1")
    assert found["queue"]["maxQueueIndex"] == 2

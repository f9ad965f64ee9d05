from __future__ import annotations

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import progress
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import QUEUE, FakeAdmin, answer, in_json, printed

STATS = answer(
    {
        "consumeTps": 2.5,
        "offsetTable": {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 0}},
    }
)
CONNECTIONS = answer(
    {
        "connectionSet": [{"clientId": "10.0.0.1@1", "version": 409}, {"clientId": "b@1",
                                                                      "version": 407}],
        "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
    }
)  # fmt: skip


def _admin() -> FakeAdmin:
    return FakeAdmin(
        {
            Code.GET_CONSUME_STATS: STATS, Code.GET_CONSUMER_CONNECTION_LIST: CONNECTIONS,
            Code.GET_CONSUMER_RUNNING_INFO: answer({"mqTable": {QUEUE: {}}}),
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["T", "%RETRY%G"]}),
        }
    )  # fmt: skip


def test_the_queues_of_a_group() -> None:
    text = printed(progress.progress, _admin(), groupName="G")
    assert text.splitlines()[1].split() == ["T", "a", "0", "9", "4", "5", "N/A"]
    assert text.endswith("\n\nConsume TPS: 2.50\nDiff Total: 5\n")


def test_the_queues_with_their_clients() -> None:
    found = in_json(progress.progress, _admin(), groupName="G", showClientIP="true")
    assert found["queues"][0]["clientIp"] == "b"


def test_all_groups() -> None:
    found = in_json(progress.progress, _admin())["groups"]
    assert found == [
        {"group": "G", "count": 2, "version": "V4_9_7", "type": "PUSH", "model": "CLUSTERING",
         "tps": 2, "diffTotal": 5}
    ]  # fmt: skip


def test_a_group_that_is_offline_and_never_consumed() -> None:
    admin = _admin()
    admin.answers[Code.GET_CONSUME_STATS] = Refused(206, "nothing")
    admin.answers[Code.GET_CONSUMER_CONNECTION_LIST] = Refused(206, "nobody")
    row = in_json(progress.progress, admin)["groups"][0]
    assert (row["count"], row["version"], row["diffTotal"]) == (0, "OFFLINE", 0)

from __future__ import annotations

import pytest

from penstock.admin.rocketmq.groups import Letters, all_groups, all_letters, one_group
from penstock.admin.rocketmq.paces import Paces
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

from .scripted import A, B, Scripted, bounds, progress

OFFLINE = Refused(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
MEMBER = {"clientId": "c@1", "clientAddr": "10.0.0.1:5", "language": "JAVA", "version": 401}
ONLINE = {
    "connectionSet": [MEMBER], "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "subscriptionTable": {"t": {"topic": "t", "subString": "a || b", "expressionType": "TAG"}},
}  # fmt: skip
HELD = {"locked": True, "cachedMsgCount": 3, "lastPullTimestamp": 9}
RUNNING = {
    "properties": {"PROP_CONSUMEORDERLY": "true", "PROP_CONSUMER_START_TIMESTAMP": "5"},
    "mqTable": {MessageQueue("a", 0, "t"): HELD},
    "statusTable": {"t": {"consumeOKTPS": 2.5, "consumeRT": 4}},
}


def servers(**more: object) -> Scripted:
    return Scripted(
        {
            (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): ONLINE,
            (B, RequestCode.GET_CONSUMER_CONNECTION_LIST): OFFLINE,
            (A, RequestCode.GET_CONSUME_STATS): progress("a", 9, 4),
            (B, RequestCode.GET_CONSUME_STATS): progress("b", 3, 3),
            RequestCode.GET_BROKER_CONSUME_STATS: {
                "consumeStatsList": [{"g": [progress("a", 9, 4)]}]
            },
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {
                "subscriptionGroupTable": {"g": {"groupName": "g", "retryMaxTimes": 7}}
            },
            RequestCode.GET_CONSUMER_RUNNING_INFO: RUNNING,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["%DLQ%g", "t"]},
            RequestCode.GET_TOPIC_STATS_INFO: bounds("a", 2, topic="%DLQ%g"),
            **more,
        }
    )


async def test_the_list_counts_members() -> None:
    (group,) = (await all_groups(servers(), Paces()))["groups"]
    assert (group["group"], group["members"], group["lag"]) == ("g", 1, 10)
    assert (group["type"], group["topics"]) == ("CONSUME_PASSIVELY", ["t"])


async def test_a_group_that_has_consumed_nothing_yet_is_in_the_list() -> None:
    scripted = servers()
    scripted.answers[RequestCode.GET_BROKER_CONSUME_STATS] = {"consumeStatsList": []}
    (group,) = (await all_groups(scripted, Paces()))["groups"]
    assert (group["group"], group["lag"]) == ("g", 0)


async def test_the_list_and_the_page_give_the_same_verdicts() -> None:
    settings = {"g": {"groupName": "g", "consumeEnable": False}}
    scripted, paces = servers(), Paces()
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    scripted.answers[code] = {"subscriptionGroupTable": settings}
    scripted.answers[B, RequestCode.GET_BROKER_CONSUME_STATS] = {
        "consumeStatsList": [{"g": [progress("b", 3, 3)]}]
    }
    (row,) = (await all_groups(scripted, paces))["groups"]
    assert [each["kind"] for each in row["verdicts"]] == ["disabled", "letters"]
    assert (await one_group(scripted, paces, "g"))["verdicts"] == row["verdicts"]


async def test_a_group_with_its_members_and_who_has_which_queue() -> None:
    found = await one_group(servers(), Paces(), "g")
    (member,) = found["members"]
    assert (member["client"], member["language"], member["version"]) == ("c@1", "JAVA", "V4_9_4")
    assert (member["queues"], member["orderly"]) == (1, True)
    assert member["topics"][0]["ok_rate"] == 2.5
    first, second = found["queues"]
    assert (first["lag"], first["held"]["client"], first["held"]["locked"]) == (5, "c@1", True)
    assert (second["lag"], second["held"]) == (0, None)
    assert found["subscriptions"] == [{"topic": "t", "expression": "a || b", "type": "TAG"}]
    assert [each["retries"] for each in found["configs"]] == [7, 7]
    assert (found["letters"], found["retries"]) == (4, 4)


async def test_a_member_that_says_nothing_holds_nobody_knows_what() -> None:
    refused = Refused(ResponseCode.SYSTEM_ERROR, "no answer")
    scripted = servers()
    scripted.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = refused
    found = await one_group(scripted, Paces(), "g")
    assert found["members"][0]["queues"] is None
    assert found["message"] == ""


async def test_a_group_that_no_broker_knows_is_not_found() -> None:
    scripted = Scripted(
        {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: OFFLINE,
            RequestCode.GET_CONSUME_STATS: {"offsetTable": {}},
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"subscriptionGroupTable": {}},
        }
    )
    with pytest.raises(ApiError, match="GROUP_NOT_FOUND"):
        await one_group(scripted, Paces(), "g")


async def test_the_letters_of_each_group_are_those_of_all_brokers() -> None:
    code = RequestCode.GET_TOPIC_STATS_INFO
    servers = Scripted(
        {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["%DLQ%g", "t"]},
            (A, code): bounds("a", 3, topic="%DLQ%g"),
            (B, code): Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
        }
    )
    warnings = Warnings()
    found = await all_letters(servers, await servers.brokers(), warnings)
    assert (found, warnings.message) == ({"g": Letters(3, 5)}, "")

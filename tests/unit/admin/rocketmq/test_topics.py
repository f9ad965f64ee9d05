from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.topics import all_topics, groups_of, one_topic, sums_of
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode

from .scripted import A, B, Scripted, bounds, progress, route

CONFIG = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}


async def test_the_list_has_the_figures_of_all_brokers() -> None:
    stats = {"consumeStatsList": [{"g": [progress("a", 9, 4)]}]}
    servers = Scripted(
        {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["t", "TBW102"]},
            RequestCode.GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"t": CONFIG}},
            (A, RequestCode.GET_BROKER_CONSUME_STATS): stats,
            (B, RequestCode.GET_BROKER_CONSUME_STATS): {},
            (A, RequestCode.GET_TOPIC_STATS_INFO): bounds("a", 9),
            (B, RequestCode.GET_TOPIC_STATS_INFO): bounds("b", 3),
        }
    )
    system, topic = (await all_topics(servers))["topics"]
    assert (system["topic"], system["kind"], system["kept"]) == ("TBW102", "system", None)
    assert (topic["kept"], topic["lag"], topic["groups"]) == (12, 5, 1)
    assert (topic["brokers"], topic["read_queues"]) == (["a", "b"], 2)


async def test_a_broker_without_the_topic_adds_nothing_to_its_figures() -> None:
    code = RequestCode.GET_TOPIC_STATS_INFO
    gone = Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    servers = Scripted({(A, code): bounds("a", 9), (B, code): gone})
    sums = await sums_of(servers, await servers.brokers(), "t")
    assert sums == {"kept": 9, "written": 9, "last_ms": 5}
    servers.answers[B, code] = Refused(ResponseCode.SYSTEM_BUSY, "busy")
    with pytest.raises(Refused, match="busy"):
        await sums_of(servers, await servers.brokers(), "t")


async def test_a_broker_that_is_gone_leaves_its_queues_without_bounds() -> None:
    servers = Scripted(
        {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: route(perm=4),
            (A, RequestCode.GET_TOPIC_STATS_INFO): bounds("a", 9),
            (B, RequestCode.GET_TOPIC_STATS_INFO): NotConnected(B, "refused"),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": []},
            RequestCode.GET_ALL_PRODUCER_INFO: {"data": {}},
        }
    )
    found = await one_topic(servers, "t")
    assert [(each["broker"], each["max"]) for each in found["queues"]] == [("a", 9), ("b", None)]
    assert [(each["readable"], each["writable"]) for each in found["queues"]] == [(True, False)] * 2
    assert found["message"] == f"WARNING: {B}: refused; {NotConnected.REMEDY}"


@pytest.mark.parametrize(
    ("stats", "members", "groups"),
    [
        ({}, [], ["g"]),
        (progress("a", 9, 4), [], ["g", "t"]),
        ({}, [{"clientId": "c"}], ["g", "t"]),
    ],
)
async def test_a_topic_is_a_group_only_where_it_has_offsets_or_members(
    stats: dict[str, Any], members: list[dict[str, Any]], groups: list[str]
) -> None:
    servers = Scripted(
        {
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": ["g", "t"]},
            RequestCode.GET_CONSUME_STATS: stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: {"connectionSet": members},
        }
    )
    assert await groups_of(servers, "t", await servers.brokers(), Warnings()) == groups

"""Requests as values: their fields are texts, as they go over the wire."""

from __future__ import annotations

from penstock.rocketmq.protocol import requests
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

QUEUE = MessageQueue("b", 3, "T")
PLACE = {"topic": "T", "queueId": "3"}


def test_what_name_servers_are_asked() -> None:
    assert requests.clusters() == (RequestCode.GET_BROKER_CLUSTER_INFO, {}, b"")
    assert requests.topic_list() == (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, b"")
    fields = {"topic": "T", "acceptStandardJsonOnly": "true"}
    assert requests.route("T") == (RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, b"")


def test_topics_and_the_bounds_of_queues() -> None:
    assert requests.topic_configs() == (RequestCode.GET_ALL_TOPIC_CONFIG, {}, b"")
    assert requests.topic_stats("T") == (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}, b"")
    assert requests.first_offset(QUEUE) == (RequestCode.GET_MIN_OFFSET, PLACE, b"")
    assert requests.end_offset(QUEUE) == (RequestCode.GET_MAX_OFFSET, PLACE, b"")
    found = requests.offset_at(QUEUE, 5)
    assert found == (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, PLACE | {"timestamp": "5"}, b"")


def test_the_offset_of_a_group_is_read_and_set() -> None:
    group = {"consumerGroup": "G", **PLACE}
    assert requests.committed("G", QUEUE) == (RequestCode.QUERY_CONSUMER_OFFSET, group, b"")
    found = requests.committed("G", QUEUE, setZeroIfNotFound="false")
    assert found.fields == group | {"setZeroIfNotFound": "false"}
    found = requests.commit("G", QUEUE, 7)
    assert found == (RequestCode.UPDATE_CONSUMER_OFFSET, group | {"commitOffset": "7"}, b"")


def test_a_pull_that_only_looks() -> None:
    code, fields, body = requests.pull(requests.TOOLS_GROUP, QUEUE, 5, 32)
    assert (code, body) == (RequestCode.PULL_MESSAGE, b"")
    assert fields == {
        "consumerGroup": "TOOLS_CONSUMER", **PLACE, "queueOffset": "5", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip

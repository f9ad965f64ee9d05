from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import topic_views
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    QUEUE,
    FakeAdmin,
    answer,
    in_json,
    printed,
)

TOPICS = answer({"topicList": ["T", "%RETRY%G", "%DLQ%G", "U"]})


def test_the_bounds_of_queues() -> None:
    bounds = {"minOffset": 1, "maxOffset": 5, "lastUpdateTimestamp": 0}
    admin = FakeAdmin({Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {QUEUE: bounds}})})
    found = in_json(topic_views.topic_status, admin, topic="T")
    row = {"broker": "a", "queue": 0, "minOffset": 1, "maxOffset": 5, "lastUpdated": 0}
    assert found == {"queues": [row]}
    admin = FakeAdmin({Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {}})})
    with pytest.raises(CommandFailed, match="Not found the topic stats info"):
        printed(topic_views.topic_status, admin, topic="T")


def test_a_route_as_json_and_as_a_list() -> None:
    found = in_json(topic_views.topic_route, FakeAdmin(), topic="T")["route"]
    assert found["brokerDatas"][0]["brokerAddrs"] == {"0": BROKER}
    text = printed(topic_views.topic_route, FakeAdmin(), topic="T", list="")
    assert "{0=127.0.0.1:10911}" in text
    assert text.splitlines()[-1].split() == ["Total:", "1", "2", "2"]


def test_topics_with_their_clusters_and_groups() -> None:
    def groups(fields: dict[str, str]) -> object:
        return answer({"groupList": ["G"]}) if fields["topic"] == "T" else Refused(1, "no")

    admin = FakeAdmin(
        {
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TOPICS,
            Code.QUERY_TOPIC_CONSUME_BY_WHO: groups,
        }
    )
    found = in_json(topic_views.topic_list, admin, clusterModel="")
    assert found["topics"] == [
        {"cluster": "C", "topic": "T", "group": "G"}, {"cluster": "C", "topic": "U", "group": ""},
    ]  # fmt: skip
    assert printed(topic_views.topic_list, admin) == "%DLQ%G\n%RETRY%G\nT\nU\n"


def test_the_clusters_of_a_topic() -> None:
    assert printed(topic_views.topic_cluster_list, FakeAdmin(), topic="T") == "C\n"


def test_who_would_have_which_queue() -> None:
    found = in_json(topic_views.allocate, FakeAdmin(), topic="T", ipList="x,y")["result"]
    assert [found[each][0]["queueId"] for each in ("x", "y")] == [0, 1]

from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import AdminError
from penstock.rocketmq.client.admin.topology import Clusters, TopicRoute

CLUSTERS = Clusters.parse(
    {
        "clusterAddrTable": {"C": ["b", "a", "gone"]},
        "brokerAddrTable": {
            "a": {"brokerName": "a", "cluster": "C", "brokerAddrs": {"1": "a:2", "0": "a:1"}},
            "b": {"brokerName": "b", "cluster": "C", "brokerAddrs": {2: "b:3"}},
        },
    }
)


def test_masters_replicas_and_names() -> None:
    assert CLUSTERS.masters("C") == ["a:1"]
    assert CLUSTERS.addresses("C") == ["a:1", "a:2", "b:3"]
    assert CLUSTERS.cluster_of("b") == "C"
    assert CLUSTERS.cluster_of("nobody") is None
    assert CLUSTERS.name_of("a:2") == "a"
    assert CLUSTERS.brokers["b"].any_address() == "b:3"


def test_each_server_of_each_broker() -> None:
    found = CLUSTERS.replicas()
    assert [(each.cluster, each.broker, each.number, each.address) for each in found] == [
        ("C", "a", 0, "a:1"), ("C", "a", 1, "a:2"), ("C", "b", 2, "b:3"),
    ]  # fmt: skip
    assert str(found[0]) == "broker a"


def test_a_cluster_that_is_not_there_is_named_with_the_remedy() -> None:
    with pytest.raises(AdminError, match="Make sure the specified clusterName exists"):
        CLUSTERS.masters("nosuch")
    with pytest.raises(AdminError, match="Make sure"):
        CLUSTERS.name_of("x:1")


def test_a_route_has_its_readable_queues() -> None:
    queue = {"readQueueNums": 2, "writeQueueNums": 1, "perm": 6, "topicSynFlag": 1}
    route = TopicRoute.parse(
        {
            "brokerDatas": [{"brokerName": "a", "cluster": "C", "brokerAddrs": {0: "a:1"}}],
            "queueDatas": [
                {**queue, "brokerName": "b", "perm": 2},
                {**queue, "brokerName": "a"},
            ],
        }
    )
    assert [each.queueId for each in route.readable("T")] == [0, 1]
    assert (route.addresses, route.queues[0].topicSysFlag) == (["a:1"], 1)

from __future__ import annotations

import msgspec

from penstock.cluster.stats import (
    NodeStats,
    Place,
    TopicStats,
    channels_named,
    settled,
    whole_channel,
    whole_topic,
)
from penstock.core.units import SECOND
from tests.programs.cluster.conftest import channel, topic

NOW = 1000 * SECOND + 7


def read(place: Place, *topics: object, only: str = "") -> list[TopicStats]:
    stats = msgspec.json.decode(msgspec.json.encode({"topics": topics}), type=NodeStats)
    return settled(stats, place, only, NOW)


A, B = Place("a:1", "a"), Place("b:1", "b", "r", "z")


def test_a_node_is_completed() -> None:
    client = {"client_id": "x", "connect_ts": 990, "hostname": "k"}
    figures = {"depth": 9, "backend_depth": 4, "zone_local_msg_count": 2, "global_msg_count": 3}
    (found,) = read(B, topic("t", channel("c", clients=[client], nodes=[], **figures), depth=2))
    assert found.channels is not None
    (one,) = found.channels
    assert (found.node, found.hostname, found.memory_depth) == ("b:1", "b", 2)
    assert (one.topic_name, one.memory_depth, one.delivery_msg_count) == ("t", 5, 5)
    assert one.nodes is None
    assert one.clients is not None
    (peer,) = one.clients
    assert (peer.node, peer.connected) == ("b:1", 10 * SECOND)
    assert (peer.node_topology_region, peer.node_topology_zone) == ("r", "z")


def test_zero_counts_are_left_out() -> None:
    (found,) = read(A, topic("t", channel("c", global_msg_count=0)))
    body = msgspec.json.encode(found)
    assert b"global_msg_count" not in body
    assert body.count(b"delivery_msg_count") == 1  # a topic always has it


def test_a_node_without_latencies_has_empty_ones() -> None:
    (found,) = read(A, topic("t", e2e_processing_latency=None))
    assert found.e2e_processing_latency is not None
    assert found.e2e_processing_latency.percentiles is None


def test_only_the_topic_that_was_asked_for() -> None:
    assert [each.topic_name for each in read(A, topic("t"), topic("u"), only="u")] == ["u"]


def test_no_node_sees_the_sums() -> None:
    """Upstream gives the first node's objects the sums of all."""
    parts = [*read(B, topic("t", channel("c", depth=3))), *read(A, topic("t", channel("c", depth=5),
             paused=True))]  # fmt: skip
    whole = whole_topic("t", parts)
    assert [(each.node, each.paused) for each in whole.nodes or ()] == [
        ("a:1", True),
        ("b:1", False),
    ]
    assert [each.depth for node in whole.nodes or () for each in node.channels or ()] == [5, 3]
    assert whole.channels is not None
    (total,) = whole.channels
    assert (total.node, total.hostname, total.depth) == ("*", "", 8)
    assert [each.node for each in total.nodes or ()] == ["a:1", "b:1"]
    assert whole.paused


def test_a_channel_on_one_node_is_that_nodes() -> None:
    parts = [*read(A, topic("t", channel("c"))), *read(B, topic("t", channel("d")))]
    assert [each.node for each in whole_topic("t", parts).channels or ()] == ["a:1", "b:1"]


def test_a_topic_of_no_node() -> None:
    whole = whole_topic("t", ())
    assert (whole.nodes, whole.channels, whole.depth) == ([], [], 0)


def test_consumers_of_a_nodes_own_zone_come_first() -> None:
    clients = [
        {"client_id": "far", "topology_region": "q"},
        {"client_id": "region", "topology_region": "r", "topology_zone": "y"},
        {"client_id": "zone", "topology_region": "r", "topology_zone": "z"},
    ]
    topics = read(B, topic("t", channel("c", clients=clients)))
    whole = whole_channel("c", channels_named("c", topics))
    assert [each.client_id for each in whole.clients or ()] == ["zone", "region", "far"]

"""What /stats says, of one node and of all: figures, rates, latencies, copies, versions."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from penstock.cluster.figures import CHANNEL, NodeFigures, ReportedNode, figures_of
from penstock.cluster.groups import LOG, ROCKETMQ, NodeGroups, whole_groups
from penstock.cluster.latency import Latency, merged
from penstock.cluster.producers import (
    LOWEST,
    AdvertisedProducers,
    NodeInfo,
    ProducerTopic,
    distinct_by_http_address,
    merged_by_tcp_address,
    parse_version,
)
from penstock.cluster.rates import LOOKS, Counts, History, Series, rates, summed
from penstock.cluster.replication_status import (
    BEHIND_BYTES,
    BEHIND_S,
    GONE_S,
    TROUBLES,
    FollowerStatus,
    Replication,
    unasked_nodes,
)
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
from tests.programs.cluster import conftest as two
from tests.unit.cluster.samples import SPARK, at, busy_cluster, channel, client, topic


def test_a_channel_and_its_client() -> None:
    busy = channel(
        "c", message_count=100, depth=7, in_flight_count=5, deferred_count=3, requeue_count=2,
        timeout_count=1, dead_letter_count=4, clients=[client()], paused=True,
    )  # fmt: skip
    (reader,) = at("n:1", 1, topic("t", busy)).topics[0].readers
    assert (reader.name, reader.kind) == ("c", CHANNEL)
    assert (reader.done, reader.lag) == (85, 15)
    assert (reader.requeued, reader.timed_out, reader.dead) == (2, 1, 4)
    assert (reader.clients, reader.paused) == (1, True)
    assert reader.members[0].software == "go-nsq/1.1.0"
    assert reader.members[0].finish_count == 900


def test_a_topic_is_as_far_behind_as_its_last_reader() -> None:
    found = at("n:1", 1, topic("t", channel("a", depth=3), channel("b", depth=9), depth=2))
    assert found.topics[0].lag == 11
    assert at("n:1", 1, topic("t", depth=2)).topics[0].lag == 2


def test_rocketmqs_groups() -> None:
    orders = busy_cluster().nodes["10.0.0.1:4151"].topics[0]
    group = orders.readers[-1]
    assert (group.name, group.kind, group.lag, group.done) == ("g", ROCKETMQ, 7, 42)
    assert (group.rate, group.clients, group.members[0].software) == (12.5, 1, "JAVA V5_3_2")


def test_groups_of_the_log() -> None:
    (group,) = at("n:1", 1, topic("t", log_groups=[SPARK])).topics[0].readers
    assert (group.name, group.kind, group.lag, group.done) == ("spark", LOG, 40, 60)


def test_no_topics() -> None:
    assert at("n:1", 1).topics == ()
    assert (
        figures_of("n:1", 1, msgspec.json.decode(b'{"topics":null}', type=ReportedNode)).topics
        == ()
    )


@pytest.mark.parametrize("answer", ["null", "[]", '"OK"', "{}", '{"topics":[{}]}', '{"topics":3}'])
def test_anything_else_is_refused(answer: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(answer, type=ReportedNode)


NOW = 1000 * SECOND + 7


def read(place: Place, *topics: object, only: str = "") -> list[TopicStats]:
    stats = msgspec.json.decode(msgspec.json.encode({"topics": topics}), type=NodeStats)
    return settled(stats, place, only, NOW)


A, B = Place("a:1", "a"), Place("b:1", "b", "r", "z")


def test_a_node_is_completed() -> None:
    client = {"client_id": "x", "connect_ts": 990, "hostname": "k"}
    figures = {"depth": 9, "backend_depth": 4, "zone_local_msg_count": 2, "global_msg_count": 3}
    (found,) = read(
        B, two.topic("t", two.channel("c", clients=[client], nodes=[], **figures), depth=2)
    )
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
    (found,) = read(A, two.topic("t", two.channel("c", global_msg_count=0)))
    body = msgspec.json.encode(found)
    assert b"global_msg_count" not in body
    assert body.count(b"delivery_msg_count") == 1  # a of_topic always has it


def test_a_node_without_latencies_has_empty_ones() -> None:
    (found,) = read(A, two.topic("t", e2e_processing_latency=None))
    assert found.e2e_processing_latency is not None
    assert found.e2e_processing_latency.percentiles is None


def test_only_the_topic_that_was_asked_for() -> None:
    assert [each.topic_name for each in read(A, two.topic("t"), two.topic("u"), only="u")] == ["u"]


def test_no_node_sees_the_sums() -> None:
    """Upstream gives the first node's objects the sums of all."""
    parts = read(B, two.topic("t", two.channel("c", depth=3)))
    parts += read(A, two.topic("t", two.channel("c", depth=5), paused=True))
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
    parts = [*read(A, two.topic("t", two.channel("c"))), *read(B, two.topic("t", two.channel("d")))]
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
    topics = read(B, two.topic("t", two.channel("c", clients=clients)))
    whole = whole_channel("c", channels_named("c", topics))
    assert [each.client_id for each in whole.clients or ()] == ["zone", "region", "far"]


def groups_told(*topics: dict[str, Any]) -> NodeGroups:
    return msgspec.convert({"topics": topics}, NodeGroups)


def log_group(name: str, lag: int) -> dict[str, Any]:
    return {"group_name": name, "lag": lag, "rate": 0.5, "committed": {"0": 10}}


def test_sums() -> None:
    nodes = [
        ("a:1", groups_told({"topic_name": "t", "log_groups": [log_group("g", 1)]})),
        ("b:1", groups_told({"topic_name": "t", "log_groups": [log_group("g", 2)]})),
        ("c:1", groups_told({"topic_name": "t", "log_groups": [log_group("g", 4)]})),
        ("go:1", groups_told({"topic_name": "t"})),
        ("none:1", NodeGroups()),
    ]
    (found,) = whole_groups(nodes)
    assert (found.topic, found.group, found.kind) == ("t", "g", LOG)
    assert (found.lag, found.rate, found.clients) == (7, 1.5, 0)
    assert [(each.node, each.lag, each.end) for each in found.nodes] == [
        ("a:1", 1, 11), ("b:1", 2, 12), ("c:1", 4, 14),
    ]  # fmt: skip


def test_kinds_and_order() -> None:
    rocketmq = {"group_name": "g", "message_model": "CLUSTERING", "lag": 3, "rate": 2.0,
                "committed": {"0": 5, "1": 6}, "client_count": 2, "clients": None}  # fmt: skip
    node = groups_told(
        {"topic_name": "u", "log_groups": [log_group("a", 0)]},
        {"topic_name": "t", "consumer_groups": [rocketmq], "log_groups": [log_group("g", 1)]},
    )
    found = whole_groups([("a:1", node)])
    assert [(each.topic, each.group, each.kind) for each in found] == [
        ("t", "g", LOG), ("t", "g", ROCKETMQ), ("u", "a", LOG),
    ]  # fmt: skip
    assert (found[1].clients, found[1].nodes[0].end) == (2, 14)
    assert [each.topic for each in whole_groups([("a:1", node)], "u")] == ["u"]


def aged(age: int, lag: int = 1, **more: Any) -> dict[str, Any]:
    return {**log_group("g", lag), "age": age, **more}


def test_age_and_owner_over_the_nodes() -> None:
    nodes = [
        (
            "a:1",
            groups_told({"topic_name": "t", "log_groups": [aged(5, owner="new", expires_in=90)]}),
        ),
        (
            "b:1",
            groups_told({"topic_name": "t", "log_groups": [aged(99, owner="old", expires_in=7)]}),
        ),
        ("c:1", groups_told({"topic_name": "t", "log_groups": [aged(0, 0, owner=None)]})),
        ("before:1", groups_told({"topic_name": "t", "log_groups": [log_group("g", 2)]})),
    ]
    (found,) = whole_groups(nodes)
    assert (found.owner, found.age, found.expires_in, found.stale) == ("new", 99, 7, False)
    assert [each.age for each in found.nodes] == [5, 99, 0, None]
    (of_before,) = whole_groups(nodes[3:])
    assert (of_before.owner, of_before.age, of_before.expires_in) == (None, None, None)


def test_a_group_is_stale_if_it_is_on_one_node() -> None:
    groups = [[aged(5)], [aged(99, stale=True)]]
    nodes = [("a:1", groups_told({"topic_name": "t", "log_groups": each})) for each in groups]
    assert [each.stale for each in whole_groups(nodes)] == [True]


def latency_told(count: int, **values: float) -> Latency:
    """As a node tells it: p99=… is the quantile 0.99."""
    percentiles = [{"quantile": int(name[1:]) / 100, "value": value} for name, value in
                   values.items()]  # fmt: skip
    latency = msgspec.convert({"count": count, "percentiles": percentiles}, Latency, strict=False)
    latency.settle()
    return latency


def test_a_nodes_percentile_has_all_its_numbers_in_gos_order() -> None:
    body = msgspec.json.encode(latency_told(4, p100=7.0, p99=6.5))
    assert body == (
        b'{"count":4,"percentiles":['
        b'{"average":7,"count":4,"max":7,"min":7,"quantile":1,"value":7},'
        b'{"average":6.5,"count":4,"max":6.5,"min":6.5,"quantile":0.99,"value":6.5}],'
        b'"topic":"","channel":"","host":""}'
    )


def test_several_nodes() -> None:
    total = merged(
        [latency_told(4, p99=100), None, latency_told(1, p99=50), latency_told(0)], "t", "c"
    )
    assert total.percentiles is not None
    (percentile,) = total.percentiles
    assert (total.count, total.topic, total.channel, total.host) == (5, "t", "c", "*")
    assert (percentile.min, percentile.max, percentile.average) == (50, 100, 90)
    assert b"value" not in msgspec.json.encode(total)


def test_the_parts_stay_as_they_are() -> None:
    parts = [latency_told(4, p99=100), latency_told(1, p99=50)]
    merged(list(parts), "t")
    assert parts == [latency_told(4, p99=100), latency_told(1, p99=50)]


def test_nothing_measured() -> None:
    assert merged([], "t") == Latency(topic="t", host="*") == merged([Latency()], "t")


def test_the_order_of_versions() -> None:
    rising = ["0.0.1", "1.2.0-1", "1.2.0-2", "1.2.0-11", "1.2.0-alpha", "1.2.0-alpha.1",
              "1.2.0-beta", "1.2.0", "1.2.1", "1.10.0", "2.0.0"]  # fmt: skip
    parsed = [parse_version(each) for each in rising]
    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_a_build_does_not_count() -> None:
    assert parse_version("1.3.0+x.7") == parse_version("1.3.0")


@pytest.mark.parametrize(
    "text", ["", "weird", "1.3", "v1.3.0", "01.3.0", "1.3.0\n", "1.3.0-", "9" * 300 + ".0.0"]
)
def test_what_is_none_is_the_lowest(text: str) -> None:
    assert parse_version(text) == LOWEST == parse_version("0.0.0")


def nodes_told(*nodes: dict[str, object]) -> AdvertisedProducers:
    return msgspec.convert({"producers": nodes}, AdvertisedProducers)


def node(host: str, **more: object) -> dict[str, object]:
    return {"hostname": host, "broadcast_address": host, "tcp_port": 1, "http_port": 2, **more}


def test_nodes_that_several_nsqlookupds_know() -> None:
    first = nodes_told(node("b", remote_address="x:1"), node("a", version="1.2.0"))
    second = nodes_told(node("b", remote_address="y:1", version="1.3.0"))
    a, b = merged_by_tcp_address([("l1:4161", first), ("l2:4161", second)])
    assert a.remote_addresses == ["l1:4161/N/A"]
    assert b.remote_addresses == ["l1:4161/x:1", "l2:4161/y:1"]
    assert (a.http_address, a.tcp_address) == ("a:2", "a:1")


def test_older_ones_are_marked() -> None:
    versions = {"a": "1.2.0-alpha", "b": "1.3.0", "c": "weird"}
    found = merged_by_tcp_address(
        [("l", nodes_told(*(node(host, version=text) for host, text in versions.items())))]
    )
    assert [each.out_of_date for each in found] == [True, False, True]


def test_topics_are_sorted_and_may_be_tombstoned() -> None:
    (found,) = merged_by_tcp_address(
        [("l", nodes_told(node("a", topics=["z", "b", "x"], tombstones=[True])))]
    )
    expected = [ProducerTopic("b"), ProducerTopic("x"), ProducerTopic("z", True)]
    assert found.topics == expected


def test_none_twice() -> None:
    found = distinct_by_http_address(
        [("l1", nodes_told(node("b"), node("a"))), ("l2", nodes_told(node("a"), node("c")))]
    )
    assert [each.hostname for each in found] == ["b", "a", "c"]


def test_the_order_of_keys() -> None:
    info = NodeInfo("h", "::1", 1, 2, "1.3.0", "z", "r")
    assert msgspec.json.encode(info.described([])) == (
        b'{"remote_addresses":null,"remote_address":"","hostname":"h","broadcast_address":"::1",'
        b'"tcp_port":1,"http_port":2,"version":"1.3.0","topology_zone":"z","topology_region":"r",'
        b'"topics":null,"out_of_date":false}'
    )
    assert info.described([]).http_address == "[::1]:2"


# --- Rates and trends from counts ----------------------------------------------------------------


def series(*lags: int) -> Series:
    made = Series()
    for second, lag in enumerate(lags):
        made.add(Counts(second * SECOND, second * 10, second * 5, lag))
    return made


def test_rates_are_those_between_the_last_two_looks() -> None:
    made = Series()
    assert made.rate_in is None
    made.add(Counts(0, 0, 0, 0))
    assert made.rate_out is None
    made.add(Counts(2 * SECOND, 100, 50, 50))
    made.add(Counts(4 * SECOND, 300, 50, 250))
    assert (made.rate_in, made.rate_out) == (100.0, 0.0)
    assert made.rates_in() == [50.0, 100.0]


def test_a_count_that_starts_anew_has_no_rate() -> None:
    made = Series()
    made.add(Counts(0, 1000, 1000, 0))
    made.add(Counts(SECOND, 10, 10, 0))
    assert (made.rate_in, made.rate_out) == (0.0, 0.0)


def test_rates_of_numbers_and_of_columns_are_the_same() -> None:
    looks = [((10, 5, 3), (16, 9, 1)), ((10, 5, 3), (8, 8, 8)), ((0, 0, 0), (0, 4, 0))]
    found = [rates(then, now, 2.0) for then, now in looks]
    assert found == [[3.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    then, now = (np.array(side, float).T for side in zip(*looks, strict=True))
    columns = np.array(rates(then, now, 2.0))
    assert columns.T.tolist() == found
    assert not np.signbit(columns).any()


def test_a_look_of_the_same_moment_is_no_news() -> None:
    made = Series()
    made.add(Counts(5, 1, 1, 0))
    made.add(Counts(5, 2, 2, 0))
    assert made.rate_in is None


def test_no_more_than_so_many_looks() -> None:
    assert len(series(*range(3 * LOOKS)).rates_in()) == LOOKS - 1


@pytest.mark.parametrize(
    ("lags", "trend"),
    [((), 0), ((5,), 0), ((0, 5), 0), ((0, 5, 9), 1), ((0, 5, 5, 9), 1), ((0, 5, 4, 9), 0),
     ((9, 5, 0), -1), ((7, 7, 7), 0), ((9, 0, 1, 2, 3, 4), 1)],
)  # fmt: skip
def test_trends(lags: tuple[int, ...], trend: int) -> None:
    assert series(*lags).trend == trend


def test_a_nodes_history() -> None:
    history = History()
    for second in range(3):
        sent = 100 * second
        bill = channel("c", message_count=sent, depth=10 * second)
        history.add(at("n:1", second, topic("t", bill, message_count=sent)))
    assert history.of("n:1", "t").rate_in == 100.0
    assert history.of("n:1", "t", "channel/c").rate_out == 90.0
    assert history.of("n:1", "t", "channel/c").trend == 1
    assert history.of("n:2", "t").rate_in is None


def test_what_a_node_has_no_more_is_forgotten_but_not_when_it_does_not_answer() -> None:
    history = History()
    for second in range(2):
        history.add(at("n:1", second, topic("t", message_count=second), topic("u")))
    history.add(NodeFigures("n:1", 2 * SECOND, error="timed out"))
    assert history.of("n:1", "u").rate_in == 0.0
    history.add(at("n:1", 3, topic("t", message_count=9)))
    assert history.of("n:1", "u").rate_in is None
    assert history.of("n:1", "t").rate_in == 4.0
    history.forget("n:1")
    assert history.of("n:1", "t").rate_in is None


def test_sums_end_with_the_newest() -> None:
    assert summed([[1.0, 2.0, 3.0], [10.0]]) == [1.0, 2.0, 13.0]
    assert summed([]) == []


# --- Second copies as nodes tell of them ---------------------------------------------------------


def test_a_node_by_itself_has_no_copies() -> None:
    assert not Replication("primary").has_copies
    assert Replication("primary", 1).has_copies
    assert Replication("primary", replicas_acked=1).has_copies
    assert Replication("follower").has_copies


def test_who_is_named_and_was_not_asked() -> None:
    primary = Replication(
        "primary", 2, before="a:1", followers=[FollowerStatus("b:1"), FollowerStatus("c:1")]
    )
    standby = Replication("follower", 2, primary="p:1")
    assert primary.named == ["a:1", "b:1", "c:1"]
    assert unasked_nodes([("p:1", primary), ("b:1", standby)], ["p:1", "b:1"]) == ["a:1", "c:1"]


@pytest.mark.parametrize(
    ("told", "kind", "level"),
    [
        (Replication("primary", 1), "", None),
        (Replication("primary", 1, replicas_acked=1, replicas_in_force=1), "", None),
        (Replication("primary", replicas_acked=2, replicas_missing="refuse"),
         "uncopied", "bad"),
        (Replication("primary", replicas_acked=1, replicas_missing="go-on"),
         "without_copies", "warn"),
        (Replication("fenced", 1), "fenced", "bad"),
        (Replication("follower", 1, lag_seconds=BEHIND_S - 1, lag_bytes=BEHIND_BYTES - 1),
         "", None),
        (Replication("follower", 1, whole=True, lag_seconds=BEHIND_S), "", None),
        (Replication("follower", 1, lag_seconds=None), "copy_behind", "warn"),
        (Replication("follower", 1, lag_seconds=BEHIND_S), "copy_behind", "warn"),
        (Replication("follower", 1, whole=True, lag_bytes=BEHIND_BYTES), "copy_behind", "warn"),
        (Replication("follower", 1, error="OTHER_HISTORY", lag_seconds=BEHIND_S),
         "not_following", "bad"),
    ],
)  # fmt: skip
def test_what_is_the_matter_with_a_node_that_answers(
    told: Replication, kind: str, level: str | None
) -> None:
    assert (told.trouble, TROUBLES.get(told.trouble)) == (kind, level)


def test_what_is_the_matter_with_a_copy_that_cannot_be_asked() -> None:
    assert FollowerStatus("b:1", asked_seconds_ago=GONE_S).trouble == "copy_gone"
    assert FollowerStatus("b:1", lag_bytes=BEHIND_BYTES).trouble == "copy_behind"
    assert FollowerStatus("b:1", asked_seconds_ago=0.5).trouble == ""

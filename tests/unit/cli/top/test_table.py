"""Rows by node and added up."""

from __future__ import annotations

from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.table import Row, members, reader_rows, topic_rows, total
from tests.unit.cluster.samples import at, busy_cluster, channel, topic


def test_topics_of_all_nodes_together() -> None:
    cluster = busy_cluster()
    rows = {row.name: row for row in topic_rows(cluster.all(), cluster.history, by_node=False)}
    orders = rows["orders"]
    assert (orders.rate_in, orders.messages, orders.clients) == (1010.0, 4040, 2)
    assert (orders.lag, orders.trend) == (2040, 1)
    assert orders.requeued == 4
    assert orders.paused
    assert orders.rates == (1010.0,) * 4
    assert rows["clicks"].idle


def test_what_goes_out_of_a_topic_goes_out_of_its_readers() -> None:
    """One that is made again, comes or goes makes no peak, and hides none of the others."""
    cluster = Cluster()
    first, second = channel("a", message_count=100), channel("b", message_count=70)
    cluster.put(at("n:1", 0, topic("t", first, second, message_count=100)))
    assert cluster_row(cluster).rate_out is None
    first, second = channel("a", message_count=130), channel("b", message_count=5)
    late = channel("c", message_count=900)
    cluster.put(at("n:1", 1, topic("t", first, second, late, message_count=130)))
    assert (cluster_row(cluster).rate_in, cluster_row(cluster).rate_out) == (30.0, 30.0)
    cluster.put(at("n:1", 2, topic("t", message_count=130)))
    assert cluster_row(cluster).rate_out == 0.0


def cluster_row(cluster: Cluster) -> Row:
    (row,) = topic_rows(cluster.all(), cluster.history, by_node=False)
    return row


def test_topics_of_each_node() -> None:
    cluster = busy_cluster()
    rows = topic_rows(cluster.all(), cluster.history, by_node=True)
    assert [(row.name, row.node) for row in rows] == [
        ("orders", "10.0.0.1:4151"),
        ("clicks", "10.0.0.1:4151"),
        ("orders", "10.0.0.2:4151"),
    ]


def test_readers_of_all_kinds() -> None:
    cluster = busy_cluster()
    rows = reader_rows(cluster.all(), "orders", cluster.history, by_node=False)
    found = {(row.kind, row.name): row for row in rows}
    assert set(found) == {
        ("channel", "bill"), ("channel", "ship"), ("rocketmq", "g"), ("log", "spark")
    }  # fmt: skip
    assert found["rocketmq", "g"].rate_out == 12.5
    assert found["channel", "bill"].rate_out == 1010.0
    assert found["channel", "ship"].idle
    assert not found["log", "spark"].idle


def test_members_of_a_reader_or_of_all() -> None:
    cluster = busy_cluster()
    rows = reader_rows(cluster.all(), "orders", cluster.history, by_node=True)
    bill = next(row for row in rows if row.name == "bill" and row.node == "10.0.0.1:4151")
    elsewhere = next(row for row in rows if row.name == "bill" and row.node == "10.0.0.2:4151")
    assert [name for _, name, _ in members(cluster.all(), "orders", bill)] == ["bill"]
    assert members(cluster.all(), "orders", elsewhere) == []
    assert len(members(cluster.all(), "orders", None)) == 2


def test_the_total() -> None:
    cluster = busy_cluster()
    added = total(topic_rows(cluster.all(), cluster.history, by_node=False))
    assert (added.name, added.messages, added.rate_in) == ("total", 4940, 1010.0)
    assert total([]).rate_in is None

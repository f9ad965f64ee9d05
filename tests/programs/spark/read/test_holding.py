"""The group of a query on its nodes."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.nsq.client.blocking import Producer
from penstock.spark.errors import GroupTakenError
from penstock.spark.nodes.access import close_connections
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.once import Once
from penstock.spark.read import holding
from penstock.spark.read.holding import Holding
from penstock.spark.read.offsets import Position
from penstock.spark.read.stream import NsqStreamReader
from penstock.spark.settings import Settings
from penstock.testing.daemons import run_nsqd
from tools.harness.fake_log_server import FakeLogServer

ALL = ReadAllAvailable()


@pytest.fixture
def cluster(server: FakeLogServer) -> Cluster:
    server.queue("t").append([b"x"] * 10)
    return Cluster(Settings.parse({"topic": "t", "nsqd_http_address": server.address}))


def test_what_is_known_is_told_again_after_a_while(
    cluster: Cluster, server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = cluster.bounds()
    position = Position(dict.fromkeys(bounds, 4), "g", {})
    held = Holding(cluster, Once())
    held.move(position, bounds)
    del server.requests[:]
    held.move(position, bounds)
    assert server.requests == []
    monkeypatch.setattr(holding, "_AGAIN_NS", -1)
    held.move(position, bounds)
    assert server.requests == ["/log/commit"]


def test_offsets_of_a_log_that_is_gone_stay_out_of_the_next(
    cluster: Cluster, server: FakeLogServer
) -> None:
    bounds = cluster.bounds()
    Holding(cluster, Once()).move(Position(dict.fromkeys(bounds, 11), "g", {}), bounds)
    assert server.groups == {}


def test_two_queries_with_one_group_over_a_real_nsqd() -> None:
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("t", b"x")
        given = {"topic": "t", "nsqd_http_address": nsqd.http, "group": "g",
                 "startingOffsets": "earliest"}  # fmt: skip

        def query() -> NsqStreamReader:
            return NsqStreamReader(Settings.parse(given), ("offset",))

        first = query()
        end = first.latestOffset(first.initialOffset(), ALL)
        again = query()  # ended before its first batch was done
        again.initialOffset()
        for restarted in (first, again, query()):
            assert restarted.latestOffset(end, ALL) == end
        with pytest.raises(GroupTakenError, match=f"owner {end['owner']} moved it in topic t"):
            query().initialOffset()
        close_connections()

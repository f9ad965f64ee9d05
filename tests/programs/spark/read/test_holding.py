"""The group of a query on its nodes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.log_api.errors import NodeUnreachable
from penstock.log_api.log_client import LogClient
from penstock.nsq.client.blocking import Producer
from penstock.spark.access import close_connections
from penstock.spark.errors import GroupTakenError, SourceError
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Position
from penstock.spark.once import Once
from penstock.spark.read import holding
from penstock.spark.read.holding import Holding
from penstock.spark.read.stream import StreamReader
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


def test_a_group_that_is_not_there_yet_and_cannot_be_made_is_an_error(
    cluster: Cluster, server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.queue("u").append([b"x"])
    both = Cluster(Settings.parse({"topic": "t,u", "nsqd_http_address": server.address}))
    bounds = both.bounds()
    position = Position(dict.fromkeys(bounds, 1), "g", {})
    held = Holding(both, Once())

    def refused(*_: object) -> None:
        raise SourceError("the node is busy")

    with monkeypatch.context() as patched:
        patched.setattr(both, "commit", refused)
        with pytest.raises(SourceError) as failed:
            held.move(position, bounds)
        assert str(failed.value) == (
            "group g could not be made for topic t and 1 more topics, so that retention would not "
            "wait for the query there: the node is busy. Start it again, with a longer timeout if "
            "the node is busy"
        )
    held.move(position, bounds)
    assert {topic: server.groups[topic]["g"] for topic in ("t", "u")} == {
        "t": {"0": 1}, "u": {"0": 1},
    }  # fmt: skip
    # One that is there is late, no more: also for a query that was started again.
    monkeypatch.setattr(both, "commit", refused)
    later = position._replace(offsets=dict.fromkeys(bounds, 0))
    held.move(later, bounds)
    Holding(both, Once()).move(later, bounds)


def test_a_node_that_is_slow_with_many_new_groups_gets_them_by_parts(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:03}" for number in range(250)]
    for name in names:
        server.queue(name).append([b"x"])
    asked: list[int] = []
    whole = LogClient.commit_all

    def commit_all(self: LogClient, group: str, offsets: Any, *, owner: str = "") -> Any:
        asked.append(len(offsets))
        if len(offsets) > 100:
            raise NodeUnreachable(self.node, "", "timed out")
        return whole(self, group, offsets, owner=owner)

    monkeypatch.setattr(LogClient, "commit_all", commit_all)
    given = {"topicPattern": "t.*", "nsqd_http_address": server.address, "timeout": "60"}
    cluster = Cluster(Settings.parse(given))
    bounds = cluster.bounds()
    Holding(cluster, Once()).move(Position(dict.fromkeys(bounds, 0), "g", {}), bounds)
    assert asked == [250, 100, 100, 50]
    assert [list(server.groups[name]) for name in names] == [["g"]] * 250


def test_two_queries_with_one_group_over_a_real_nsqd() -> None:
    with run_nsqd("--broadcast-address=127.0.0.1") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.publish("t", b"x")
        given = {"topic": "t", "nsqd_http_address": nsqd.http, "group": "g",
                 "startingOffsets": "earliest"}  # fmt: skip

        def query() -> StreamReader:
            return StreamReader(Settings.parse(given), ("offset",))

        first = query()
        end = first.latestOffset(first.initialOffset(), ALL)
        again = query()  # ended before its first batch was done
        again.initialOffset()
        for restarted in (first, again, query()):
            assert restarted.latestOffset(end, ALL) == end
        with pytest.raises(GroupTakenError, match=f"owner {end['owner']} moved it in topic t"):
            query().initialOffset()
        close_connections()

"""The group of a query on its nodes."""

from __future__ import annotations

import pytest

from penstock.spark import holding
from penstock.spark.cluster import Cluster
from penstock.spark.holding import Holding
from penstock.spark.offsets import Position
from penstock.spark.once import Once
from penstock.spark.settings import Settings
from tests.spark.fake_log_server import FakeLogServer


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

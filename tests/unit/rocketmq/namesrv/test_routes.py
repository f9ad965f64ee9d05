"""The tables of the name server, with a clock that stands still, and what its pages say of them."""

from __future__ import annotations

import pytest

from penstock.core.metrics import mqnamesrv as metrics
from penstock.core.units import SECOND
from penstock.rocketmq.namesrv.daemon import PATIENCE_S, NamesrvVitals
from penstock.rocketmq.namesrv.routes import BrokerIdentity, Routes
from penstock.rocketmq.protocol.registration import Registration, TopicConfig
from penstock.testing.clock import FakeClock
from tests.metrics_pages import parse

A = BrokerIdentity("C", "a", "1.1.1.1:1", 0, "1.1.1.1:2")
B = BrokerIdentity("C", "b", "1.1.1.2:1", 0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def routes(clock: FakeClock) -> Routes:
    return Routes(clock)


def topics(*names: str, counter: int = 1, read_queues: int = 4) -> Registration:
    configs = {name: TopicConfig(name, read_queues) for name in names}
    return Registration({"counter": counter, "timestamp": 1}, configs)


def test_topics_change_only_with_their_version(routes: Routes) -> None:
    routes.register(A, topics("T", read_queues=4), 1)
    routes.register(A, topics("T", "new", read_queues=8), 1)
    assert routes.topics["T"]["a"].read_queues == 4
    assert routes.topics["new"]["a"].read_queues == 8
    routes.register(A, topics("T", read_queues=8, counter=2), 1)
    assert routes.topics["T"]["a"].read_queues == 8


def test_only_masters_tell_of_topics(routes: Routes) -> None:
    slave = BrokerIdentity("C", "a", "1.1.1.3:1", 1)
    assert routes.register(slave, topics("T"), 1) == ("", "")
    assert routes.route("T") is None
    routes.register(A, topics("T"), 2)
    assert routes.register(slave, topics("T"), 1) == ("1.1.1.1:1", "1.1.1.1:2")


def test_a_slave_that_takes_the_place_of_its_master_tells_of_its_own_topics(routes: Routes) -> None:
    routes.register(A, topics("T", read_queues=4), 1)
    routes.register(BrokerIdentity("C", "a", "1.1.1.3:1", 1), topics("T", read_queues=4), 2)
    routes.register(A, topics("T", read_queues=8, counter=2), 1)  # and hangs, before that is copied
    routes.register(BrokerIdentity("C", "a", "1.1.1.3:1", 0), topics("T", read_queues=4), 2)
    assert routes.brokers["a"].addresses == {0: "1.1.1.3:1"}
    assert routes.topics["T"]["a"].read_queues == 4


def test_an_address_has_one_id(routes: Routes) -> None:
    routes.register(BrokerIdentity("C", "a", "1.1.1.1:1", 1), topics(), 1)
    routes.register(A, topics("T"), 1)
    assert routes.brokers["a"].addresses == {0: "1.1.1.1:1"}


def test_silent_brokers_go_with_their_topics(routes: Routes, clock: FakeClock) -> None:
    routes.register(A, topics("T", "only-a"), 1)
    routes.register(B, topics("T"), 2)
    clock.advance(100 * SECOND)
    routes.query_version(B.address, {})
    clock.advance(30 * SECOND)
    assert [gone.broker for gone in routes.drop_expired()] == ["a"]
    assert list(routes.topics) == ["T"]
    assert list(routes.topics["T"]) == ["b"]
    assert routes.clusters == {"C": {"b": None}}
    assert routes.disconnected(2) == [B.address]
    assert (routes.topics, routes.clusters, routes.brokers, routes.live) == ({}, {}, {}, {})


def test_a_new_connection_takes_a_broker_over(routes: Routes) -> None:
    routes.register(A, topics("T"), "old")
    routes.register(A, topics("T"), "new")
    assert routes.disconnected("old") == []
    assert routes.route("T") is not None


def test_a_broker_that_moves_leaves_nothing_behind(routes: Routes) -> None:
    routes.register(A, topics("T"), 1)
    routes.register(BrokerIdentity("D", "a", A.address, 0), topics("T"), 1)
    assert routes.clusters == {"D": {"a": None}}
    assert routes.brokers["a"].cluster == "D"
    routes.register(BrokerIdentity("D", "renamed", A.address, 0), topics("T"), 1)
    assert routes.clusters == {"D": {"renamed": None}}
    assert list(routes.topics["T"]) == ["renamed"]
    routes.disconnected(1)
    assert (routes.topics, routes.clusters, routes.brokers, routes.live) == ({}, {}, {}, {})


def test_versions_of_brokers_old_and_new(routes: Routes) -> None:
    routes.register(A, topics("T"), 1)
    assert routes.query_version(A.address, {"counter": 1, "timestamp": 1})[0] is False
    new = {"counter": 1, "timestamp": 1, "stateVersion": 0}
    assert routes.query_version(A.address, new)[0] is False
    assert routes.query_version(A.address, {**new, "stateVersion": 1})[0] is True


def test_filter_servers(routes: Routes) -> None:
    with_filters = topics("T")
    with_filters.filter_servers = ["1.1.1.9:1"]
    routes.register(A, with_filters, 1)
    assert (routes.route("T") or {})["filterServerTable"] == {"1.1.1.1:1": ["1.1.1.9:1"]}
    routes.register(A, topics("T"), 1)
    assert (routes.route("T") or {})["filterServerTable"] == {}


# --- readiness and metrics ------------------------------------------------------------------------


def test_an_empty_cluster_makes_it_ready_after_a_while(routes: Routes, clock: FakeClock) -> None:
    vitals = NamesrvVitals(routes, (), clock)
    assert vitals.missing() == ["NOK - no broker has registered within 45 s of the start yet"]
    clock.advance(PATIENCE_S * SECOND)
    assert not vitals.missing()


def test_a_broker_that_came_and_went_leaves_it_ready(routes: Routes, clock: FakeClock) -> None:
    vitals = NamesrvVitals(routes, (), clock)
    routes.register(A, topics("T"), 1)
    routes.unregister(A.address)
    assert not vitals.missing()


async def test_brokers_gone_and_routes_asked_for(routes: Routes, clock: FakeClock) -> None:
    routes.register(A, topics("T"), 1)
    routes.register(B, topics("U"), 2)
    routes.route("T")
    routes.route("unknown")
    routes.disconnected(1)
    clock.advance(121 * SECOND)
    routes.drop_expired()
    found = NamesrvVitals(routes, (), clock)
    page = parse("".join([samples.text() async for samples in found.source()]))
    assert page[metrics.REGISTRATIONS.name].value() == 2
    assert page[metrics.BROKERS.name].value() == 0
    for reason in ("connection", "silence"):
        assert page[metrics.BROKERS_GONE.name].value(reason=reason) == 1
    for found_one in ("true", "false"):
        assert page[metrics.ROUTES.name].value(found=found_one) == 1

"""Brokers found by name servers, one of which answers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.protocol.codes import RequestCode
from penstock.spark.errors import SourceError
from penstock.spark.nodes import directory
from penstock.spark.rocketmq.routes import Routes, brokers_in
from penstock.spark.rocketmq.settings import RocketmqSettings
from tests.unit.spark.rocketmq.scripted_broker import ScriptedBroker
from tools.harness.ports import unused_address


def routes(namesrv: str, topic: str = "t") -> Routes:
    given = {"topic": topic, "namesrvaddr": namesrv, "timeout": "60"}
    return Routes(RocketmqSettings.parse(given))


def test_topics_by_the_addresses_of_masters(broker: ScriptedBroker) -> None:
    broker.queue("t")
    broker.queue("u")
    found = routes(broker.address, "t,u,nope").topics_at()
    assert found == {broker.address: ["t", "u"]}


def test_every_topic_is_listed_by_the_name_server(broker: ScriptedBroker) -> None:
    broker.queue("t")
    broker.queue("u")
    assert routes(broker.address, "*").topics_at() == {broker.address: ["t", "u"]}


@pytest.mark.usefixtures("hasty")
def test_a_name_server_that_is_down_is_passed_over(broker: ScriptedBroker) -> None:
    broker.queue("t")
    down = unused_address()
    assert routes(f"{down};{broker.address}").topics_at() == {broker.address: ["t"]}
    with pytest.raises(SourceError, match="no name server answers for topic t: connection refused"):
        routes(down).topics_at()


def test_a_silent_name_server_leaves_what_was_known(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    broker.queue("t")
    with ScriptedBroker() as server:
        server.queue("t")
        asked = routes(server.address)
        known = dict(asked.topics_at())
        assert known == {server.address: ["t"]}
    assert asked.topics_at() == asked.topics_at() == known
    (said,) = caplog.messages
    assert said.startswith("no name server answers for topic t: connection refused. It goes on")


def test_a_name_server_that_refuses_is_told_with_its_words(broker: ScriptedBroker) -> None:
    broker.refuse[RequestCode.GET_ROUTEINFO_BY_TOPIC] = (1, "name server not ready")
    with pytest.raises(SourceError, match="asked for topic t: name server not ready"):
        routes(broker.address).topics_at()


def route(perm: int = 6, **addresses: str) -> dict[str, Any]:
    broker = {"brokerName": "b", "brokerAddrs": {k[1:]: v for k, v in addresses.items()}}
    return {"queueDatas": [{"brokerName": "b", "perm": perm}], "brokerDatas": [broker]}


def test_replicas_serve_where_there_is_no_master() -> None:
    assert brokers_in(route(_0="m:1", _1="s:1")) == ["m:1"]
    assert brokers_in(route(_2="r:1", _1="s:1")) == ["s:1"]
    assert brokers_in(route()) == []


def test_brokers_that_nobody_may_read_from_are_left_out() -> None:
    assert brokers_in(route(perm=2, _0="m:1")) == []


@pytest.mark.parametrize("wrong", [None, [], {}, route(perm="6")])  # type: ignore[arg-type]
def test_a_route_that_makes_no_sense(wrong: Any) -> None:
    if isinstance(wrong, dict) and wrong:
        wrong["brokerDatas"] = 5
    with pytest.raises(SourceError, match="makes no sense"):
        brokers_in(wrong)

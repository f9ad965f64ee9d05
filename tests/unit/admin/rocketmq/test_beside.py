"""What brokers have that are no nodes comes to what nodes tell, and nothing comes twice."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.nodes.machines import Machine
from penstock.admin.rocketmq.beside import Beside
from penstock.cluster.cluster import Addresses
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import whole_groups
from penstock.cluster.producers import Producer
from penstock.rocketmq.protocol.codes import RequestCode

from .scripted import Scripted, progress
from .test_groups import servers


class Nodes:
    """Nodes of NSQ on 127.0.0.1 with a RocketMQ port each, which is their name's value."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.addresses = Addresses((), tuple(f"127.0.0.1:{port + 1}" for port in ports.values()))
        self.ports = ports
        self.asker = self

    async def get(self, address: str, target: str, kind: type[Machine]) -> Machine:
        assert target == "/node"
        return Machine(ports={"tcp": 1, "rocketmq": int(address.rpartition(":")[2]) - 1})

    async def producers(self, warnings: Warnings, *, with_topics: bool) -> list[Producer]:
        return [
            Producer(hostname="node", broadcast_address="127.0.0.1", http_port=port + 1)
            for port in self.ports.values()
        ]


def beside(scripted: Scripted, **ports: int) -> Beside:
    nodes: Any = Nodes(ports)
    return Beside(scripted, nodes)


async def test_groups_of_brokers_are_as_those_of_nodes() -> None:
    told = [
        progress("a", 9, 4),
        progress("a", 2, 0, topic="u"),
        progress("a", 1, 1, topic="%RETRY%g"),
    ]
    scripted = servers()
    scripted.answers[RequestCode.GET_BROKER_CONSUME_STATS] = {"consumeStatsList": [{"g": told}]}
    warnings = Warnings()
    found = whole_groups(await beside(scripted).groups(warnings))
    assert warnings.errors == []
    assert [(each.topic, each.group, each.kind, each.lag, each.rate) for each in found] == [
        ("t", "g", "rocketmq", 10, 2.0), ("u", "g", "rocketmq", 4, 2.0)
    ]  # fmt: skip
    (first, second) = found[0].nodes
    assert (first.node, first.lag, first.committed, first.end) == ("a", 5, {"0": 4}, 9)
    assert (first.clients, second.clients) == (1, 0)


async def test_a_broker_that_is_a_port_of_a_node_is_left_out() -> None:
    scripted = servers()
    assert await beside(scripted, one=10911).are_nodes() >= {"127.0.0.1:10911"}
    told = await beside(scripted, one=10911).groups(Warnings())
    assert {broker for broker, _ in told} == {"b"}
    assert await beside(scripted, one=10911, two=10921).groups(Warnings()) == []


async def test_without_name_servers_there_is_a_warning() -> None:
    scripted = servers()
    scripted.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = NoAnswerError("no name server")
    warnings = Warnings()
    assert await beside(scripted).groups(warnings) == []
    assert warnings.errors == ["no name server"]


async def test_a_lag_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(Scripted, "now_ms", property(lambda self: now * 1000))
    scripted = servers()
    others = beside(scripted)
    assert others.growth("t", "g") is None
    for look in range(20):
        now += 10
        scripted.answers[RequestCode.GET_BROKER_CONSUME_STATS] = {
            "consumeStatsList": [{"g": [progress("a", 100 * look, 50 * look)]}]
        }
        await others.groups(Warnings())
    # Two brokers tell the same, 5 messages a second each.
    assert others.growth("t", "g") == pytest.approx(10)
    scripted.answers[RequestCode.GET_BROKER_CONSUME_STATS] = {"consumeStatsList": []}
    await others.groups(Warnings())
    assert others.growth("t", "g") is None

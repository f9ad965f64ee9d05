"""The visible side of clients."""

from __future__ import annotations

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.consuming import Consumption
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.views import ConsumerView
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, MemoryHub


class Client(ConsumerView):
    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub
        self._core = Consumption("G", hub, ConsumerKind())


def test_a_consumer_shows_its_queues_and_connections() -> None:
    hub = MemoryHub()
    Brokers(hub, "T")
    client = Client(hub)
    told: list[list[MessageQueue]] = []
    client.on_queues_changed = told.append
    assert client.on_queues_changed == told.append
    client.subscribe("T")
    hub.does(Job(client._core.begin()))
    hub.passes(1)
    queues = [MessageQueue("a", number, "T") for number in range(2)]
    assert [each.queue for each in client.queues] == queues
    assert {(each.broker, each.topic) for each in client.queues} == {("a", "T")}
    assert told == [[MessageQueue("a", 0, "T"), MessageQueue("a", 1, "T")]]
    assert sorted(client.connections) == ["a:10911", "ns:9876"]
    assert client.connections["a:10911"].answers
    assert client.client_id == hub.client_id
    assert client.name_servers == ["ns:9876"]
    client.set_name_servers("x:1")
    assert client.name_servers == ["x:1"]
    client.pause(MessageQueue("a", 0, "T"))
    assert [each.is_paused for each in client.queues] == [True, False]
    client.resume()
    assert not any(each.is_paused for each in client.queues)
    client.unsubscribe("T")
    hub.passes(1)
    assert client.queues == []


def test_queues_are_paused_by_their_names_in_a_namespace() -> None:
    hub = MemoryHub(Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1", namespace="ns"))
    Brokers(hub, "ns%T")
    client = Client(hub)
    client.subscribe("T")
    hub.does(Job(client._core.begin()))
    hub.passes(1)
    client.pause(MessageQueue("a", 0, "T"))
    assert [each.is_paused for each in client.queues] == [True, False]
    client.resume(MessageQueue("a", 0, "ns%T"))
    assert not any(each.is_paused for each in client.queues)

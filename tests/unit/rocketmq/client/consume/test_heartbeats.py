"""Heartbeats without a network."""

from __future__ import annotations

from typing import Any

from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.rocketmq.client.memory_hub import MemoryHub

BEAT = RequestCode.HEART_BEAT


def made(consumes: bool = False) -> tuple[MemoryHub, Heartbeats]:
    hub = MemoryHub()
    hub.has_topic("T", brokers="ab")
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"]["1"] = "a:2"
    hub.does(Job(hub.routes.of("T")))
    groups: dict[str, Any] = {"consumerDataSet": [{}] if consumes else [], "producerDataSet": []}
    return hub, Heartbeats(hub, lambda: groups, "G")


def beaten(hub: MemoryHub) -> list[str]:
    return [address for address, request in hub.log if request.code == BEAT]


def test_masters_are_told_and_replicas_by_consumers() -> None:
    hub, beats = made()
    hub.does(Job(beats.beat()))
    assert sorted(beaten(hub)) == ["a:10911", "b:10911"]
    hub, beats = made(consumes=True)
    hub.does(Job(beats.beat()))
    assert sorted(beaten(hub)) == ["a:10911", "a:2", "b:10911"]
    body = fastjson.loads(hub.requests(BEAT)[0].body)
    assert body["clientID"] == hub.client_id


def test_it_beats_for_ever() -> None:
    hub, beats = made()
    hub.spawn(beats.watch(), "beats")
    hub.passes(91)
    assert len(beaten(hub)) == 6


def test_only_new_brokers_are_introduced_to() -> None:
    hub, beats = made()
    hub.does(Job(beats.introduce()))
    hub.does(Job(beats.introduce()))
    assert len(beaten(hub)) == 2
    assert beats.reached == {"a:10911", "b:10911"}


def test_a_lost_broker_is_told_again_soon_and_until_it_is_there() -> None:
    hub, beats = made()
    hub.does(Job(beats.beat()))
    hub.down.add("a:10911")
    hub.lose(hub.connections["a:10911"], NotConnected("a:10911", "gone"))
    assert beats.reached == {"b:10911"}
    hub.passes(3)
    hub.down.clear()
    hub.passes(2)
    assert beats.reached == {"a:10911", "b:10911"}


def test_a_broker_that_comes_back_to_the_routes_is_introduced_to_at_once() -> None:
    hub, beats = made()
    hub.does(Job(beats.beat()))
    hub.down.add("a:10911")
    hub.lose(hub.connections["a:10911"], NotConnected("a:10911", "gone"))
    hub.passes(3)
    there = hub.known["T"]
    hub.has_topic("T", brokers="b")
    hub.does(Job(hub.routes.ask("T")))
    hub.passes(60)
    hub.down.clear()
    hub.known["T"] = there
    hub.does(Job(hub.routes.ask("T")))
    hub.does(Job(beats.introduce()))
    assert beats.reached == {"a:10911", "b:10911"}


def test_leaving_tells_those_that_knew() -> None:
    hub, beats = made()
    hub.does(Job(beats.beat()))
    hub.does(Job(beats.leave(consumerGroup="G")))
    (first, _) = hub.requests(RequestCode.UNREGISTER_CLIENT)
    assert first.ext == {"clientID": hub.client_id, "consumerGroup": "G"}
    assert not beats.reached


def test_nobody_waits_for_a_broker_that_failed_and_is_tried_again_anyhow() -> None:
    """Its machine may be off: a connection to it takes seconds to fail, each time."""
    hub, beats = made()
    hub.answers[BEAT] = lambda address, request: request.answer() if address[0] == "b" else None
    hub.does(Job(beats.introduce()))
    assert beats.reached == {"b:10911"}
    again = Job(beats.introduce())
    hub.work()
    assert again.is_done
    hub.answers[BEAT] = lambda _, request: request.answer()
    hub.passes(2)
    assert beats.reached == {"a:10911", "b:10911"}

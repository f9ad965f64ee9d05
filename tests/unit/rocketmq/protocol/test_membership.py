"""Heartbeats of clients, as a broker reads them."""

from __future__ import annotations

from penstock.rocketmq.broker.state.clients import Heartbeat
from penstock.rocketmq.protocol import membership
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.ids import java_hash


def test_a_consumer_and_what_it_subscribes_to() -> None:
    wanted = membership.subscription("T", "a || b", version=7, tags=["a", "b"])
    assert (wanted["codeSet"], wanted["tagsSet"]) == ([java_hash("a"), java_hash("b")], ["a", "b"])
    groups = membership.consuming("G", [wanted], membership.PULLS, model="BROADCASTING")
    code, fields, body = membership.heartbeat("me", groups)
    assert (code, fields) == (RequestCode.HEART_BEAT, {})
    found = Heartbeat.parse(body)
    assert (found.client_id, found.producers) == ("me", [])
    (consumer,) = found.consumers
    assert (consumer.group, consumer.model) == ("G", "BROADCASTING")
    assert [each.topic for each in consumer.subscriptions] == ["T"]


def test_a_producer() -> None:
    found = Heartbeat.parse(membership.heartbeat("me", membership.producing("P")).body)
    assert (found.consumers, found.producers) == ([], ["P"])

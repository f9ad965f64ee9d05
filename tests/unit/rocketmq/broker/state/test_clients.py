"""The registry of clients, with heartbeats in the accents of real clients."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.state import clients
from penstock.rocketmq.broker.state.clients import Clients, Heartbeat, Member
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.errors import BodyError

JAVA = (
    b'{"clientID":"ip@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",'
    b'"subString":"*","subVersion":1,"tagsSet":[],"topic":"T"}],"unitMode":false}],'
    b'"producerDataSet":[{"groupName":"PG"}]}'
)
CPP = (
    b'{"clientID":"2-ip@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,'
    b'"groupName":"CG","messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"2",'
    b'"topic":"T"},{"subString":"*","subVersion":"2","topic":"U"}]}]}\n'
)


def member(name: str, heard_ns: int = 0) -> Member[str]:
    return Member(name, f"peer of {name}", "127.0.0.1:5", Language.JAVA, 409, heard_ns)


def test_heartbeats() -> None:
    java, cpp = Heartbeat.parse(JAVA), Heartbeat.parse(CPP)
    assert (java.client_id, java.producers) == ("ip@1", ["PG"])
    assert cpp.producers == []
    for consumer in (java.consumers[0], cpp.consumers[0]):
        assert consumer.consume_type == "CONSUME_PASSIVELY"
        assert consumer.model == "CLUSTERING"
        assert consumer.consume_from == "CONSUME_FROM_FIRST_OFFSET"


def test_a_tag_that_is_no_utf8_keeps_nobody_out() -> None:
    tag = "订单".encode("gbk")  # as C++ clients send it that were compiled so
    (consumer,) = Heartbeat.parse(CPP.replace(b'"*"', b'"' + tag + b'"')).consumers
    assert tag.decode("utf-8", "replace") in [each.text for each in consumer.subscriptions]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"clientID":"x","consumerDataSet":[{}]}',
             b'{"clientID":"x","producerDataSet":[1]}', b'{"clientID":"x","producerDataSet":1}',
             b'{"clientID":"x","consumerDataSet":true}',
             b'{"clientID":"x","consumerDataSet":[{"groupName":"g","subscriptionDataSet":1}]}']
)  # fmt: skip
def test_what_is_no_heartbeat(body: bytes) -> None:
    with pytest.raises(BodyError):
        Heartbeat.parse(body)


def test_joining_and_leaving() -> None:
    registry: Clients[str] = Clients()
    first, second = member("c1"), member("c2")
    assert [g.name for g in registry.beat(Heartbeat.parse(JAVA), first)] == ["CG"]
    assert registry.beat(Heartbeat.parse(JAVA), first) == []
    assert len(registry.beat(Heartbeat.parse(CPP), second)) == 1
    group = registry.consumers["CG"]
    assert list(group.subscriptions) == ["T", "U"]
    assert group.member("c2") is second
    assert len(registry.beat(Heartbeat.parse(JAVA), first)) == 1, "the last heartbeat wins"
    assert registry.producer_of("c1") is first
    assert registry.leave(first.peer, "PG", None) == []
    assert registry.producer_of("c1") is None
    assert registry.leave(first.peer, None, "CG") == [group]
    assert registry.leave(first.peer, None, "CG") == []
    assert registry.disconnected(second.peer) == [group]
    assert registry.consumers == {}
    assert registry.leave(second.peer, "none", "none") == []


def test_producers_are_found_by_their_id() -> None:
    registry: Clients[str] = Clients()
    first = member("c1")
    registry.beat(Heartbeat.parse(JAVA), first)
    renamed = Member("c9", first.peer, first.address, first.language, first.version, 0)
    registry.beat(Heartbeat.parse(JAVA), renamed)
    assert registry.producer_of("c1") is None
    assert registry.producer_of("c9") is renamed
    again = Member("c9", "a newer connection", "127.0.0.1:6", Language.JAVA, 409, 0)
    registry.beat(Heartbeat.parse(JAVA), again)
    assert registry.consumer_of("CG", "c9") is again
    registry.disconnected(renamed.peer)
    assert registry.producer_of("c9") is again
    assert registry.consumer_of("CG", "c9") is again
    assert registry.consumer_of("none", "c9") is None
    assert [group.name for group in registry.disconnected(again.peer)] == ["CG"]
    assert registry.producer_of("c9") is None
    assert (registry.consumers, registry.producers) == ({}, {})


def test_newer_subscriptions_replace_older_ones() -> None:
    registry: Clients[str] = Clients()
    registry.beat(Heartbeat.parse(JAVA), member("c1"))
    older = JAVA.replace(b'"subString":"*","subVersion":1', b'"subString":"A","subVersion":0')
    registry.beat(Heartbeat.parse(older), member("c1"))
    assert registry.consumers["CG"].subscriptions["T"].wants_all
    newer = JAVA.replace(b'"subString":"*","subVersion":1', b'"subString":"A","subVersion":2')
    registry.beat(Heartbeat.parse(newer), member("c1"))
    assert registry.consumers["CG"].subscriptions["T"].tags == ["A"]


def test_silent_clients() -> None:
    registry: Clients[str] = Clients()
    registry.beat(Heartbeat.parse(JAVA), member("c1"))
    registry.beat(Heartbeat.parse(CPP), member("c2", clients.EXPIRY_NS))
    assert registry.expired(clients.EXPIRY_NS) == []
    assert registry.expired(clients.EXPIRY_NS + 1) == ["peer of c1"]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "GROUPS_MAX", 1)
    registry: Clients[str] = Clients()
    registry.beat(Heartbeat.parse(JAVA), member("c1"))
    with pytest.raises(BodyError, match="consumer groups"):
        registry.beat(Heartbeat.parse(JAVA.replace(b'"CG"', b'"CG2"')), member("c1"))
    with pytest.raises(BodyError, match="producer groups"):
        registry.beat(Heartbeat.parse(JAVA.replace(b'"PG"', b'"PG2"')), member("c1"))
    assert member("c").as_json()["language"] == "JAVA"


def test_ids_and_groups_of_producers_are_not_too_long() -> None:
    for text, longer in (
        (b'"PG"', b'"' + b"P" * 256 + b'"'),
        (b'"ip@1"', b'"' + b"i" * 1025 + b'"'),
    ):
        with pytest.raises(BodyError, match="characters"):
            Heartbeat.parse(JAVA.replace(text, longer))


def test_who_subscribes_to_a_topic() -> None:
    registry: Clients[str] = Clients()
    registry.beat(Heartbeat.parse(JAVA), member("c1"))
    assert registry.subscribers("T") == ["CG"]
    assert registry.subscribers("U") == []


def test_another_account_takes_over_no_id_of_a_live_producer() -> None:
    registry: Clients[str] = Clients()
    beat = Heartbeat.parse(b'{"clientID":"c","producerDataSet":[{"groupName":"PG"}]}')
    first, again, other = (
        Member("c", peer, "127.0.0.1:5", Language.JAVA, 409, 0, key)
        for peer, key in (("1", "mine"), ("2", "mine"), ("3", "other"))
    )
    for member, owner in ((first, first), (other, first), (again, again), (other, again)):
        registry.beat(beat, member)
        assert registry.producer_of("c") is owner
    registry.disconnected("2")
    registry.beat(beat, other)
    assert registry.producer_of("c") is other

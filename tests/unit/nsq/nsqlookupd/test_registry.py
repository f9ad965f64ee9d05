from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.nsq.nsqlookupd.protocol import PeerInfo
from penstock.nsq.nsqlookupd.registry import Producer, Registry
from penstock.testing.clock import FakeClock

INACTIVE = 300 * SECOND
LIFETIME = 45 * SECOND


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(clock, INACTIVE, LIFETIME)


def join(registry: Registry, port: int = 1, address: str = "127.0.0.1") -> Producer:
    producer = Producer(f"127.0.0.1:{port}", PeerInfo("h", address, 4150, 4151, "1.3.0"))
    registry.connect(producer)
    return producer


def keys(registry: Registry) -> list[str]:
    return sorted(key for key, _ in registry.entries())


def test_register_enters_topic_and_channel(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "t", "c")
    registry.register(producer, "a")
    assert registry.topics() == ["a", "t"]
    assert registry.channels("t") == ["c"]
    assert registry.channels("a") == registry.channels("nope") == []
    assert registry.topic_producers("t") == [producer]
    assert registry.nodes() == [(producer, [("a", False), ("t", False)])]
    assert keys(registry) == ["channel:t:c", "client::", "topic:a:", "topic:t:"]


def test_disconnect_leaves_the_keys(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "e#ephemeral", "f#ephemeral")
    registry.disconnect(producer)
    registry.disconnect(producer)
    assert registry.topics() == ["e#ephemeral", "t"]
    assert registry.channels("e#ephemeral") == ["f#ephemeral"]
    assert registry.topic_producers("t") == []
    assert registry.nodes() == []
    assert keys(registry) == []


def test_unregister_channel(registry: Registry) -> None:
    one, two = join(registry, 1), join(registry, 2)
    for producer in (one, two):
        registry.register(producer, "t", "c")
        registry.register(producer, "t", "e#ephemeral")
        registry.unregister_channel(producer, "t", "c")
    registry.unregister_channel(one, "t", "e#ephemeral")
    registry.unregister_channel(one, "nope", "nope")
    assert registry.channels("t") == ["c", "e#ephemeral"]
    registry.unregister_channel(two, "t", "e#ephemeral")
    assert registry.channels("t") == ["c"]
    assert registry.topic_producers("t") == [one, two]


def test_unregister_topic(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "e#ephemeral", "c")
    assert registry.unregister_topic(producer, "t") == ["c"]
    assert registry.unregister_topic(producer, "e#ephemeral") == ["c"]
    assert registry.unregister_topic(producer, "nope") == []
    assert registry.topics() == ["t"]
    assert registry.channels("t") == registry.channels("e#ephemeral") == ["c"]
    assert registry.nodes() == [(producer, [])]


def test_ephemeral_topics_leave_nothing_behind(registry: Registry) -> None:
    producer = join(registry)
    for number in range(3):
        topic = f"reply-{number}#ephemeral"
        registry.register(producer, topic, "c#ephemeral")
        registry.unregister_channel(producer, topic, "c#ephemeral")
        registry.unregister_topic(producer, topic)
    assert not registry._topics
    assert not registry._channels
    assert not producer.topics


def test_a_silent_producer_is_hidden_until_it_speaks(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    clock.advance(INACTIVE)
    assert registry.topic_producers("t") == [producer]
    clock.advance(1)
    assert registry.topic_producers("t") == []
    assert registry.nodes() == []
    assert keys(registry) == ["client::", "topic:t:"]
    registry.touch(producer)
    assert registry.topic_producers("t") == [producer]
    assert producer.last_update == clock.wall_ns()


def test_setting_the_systems_time_hides_nobody(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    clock.set_wall(clock.wall_ns() + 10 * INACTIVE)
    assert registry.topic_producers("t") == [producer]


def test_tombstone_hides_for_its_lifetime(registry: Registry, clock: FakeClock) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.register(producer, "u")
    assert registry.tombstone("t", "127.0.0.1:4151") == 1
    assert registry.tombstone("t", "127.0.0.1:4150") == 0
    assert registry.tombstone("nope", "127.0.0.1:4151") == 0
    assert registry.topic_producers("t") == []
    assert registry.topic_producers("u") == [producer]
    assert registry.nodes() == [(producer, [("t", True), ("u", False)])]
    registry.register(producer, "t", "c")  # registering again clears nothing
    clock.advance(LIFETIME - 1)
    assert registry.topic_producers("t") == []
    clock.advance(1)
    assert registry.topic_producers("t") == [producer]


def test_unregistering_clears_a_tombstone(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t")
    registry.tombstone("t", "127.0.0.1:4151")
    registry.unregister_topic(producer, "t")
    assert registry.topic_producers("t") == []
    registry.register(producer, "t")
    assert registry.topic_producers("t") == [producer]


@pytest.mark.parametrize("node", ["::1:4151", "[::1]:4151"])
def test_tombstone_of_an_ipv6_node(registry: Registry, node: str) -> None:
    registry.register(join(registry, address="::1"), "t")
    assert registry.tombstone("t", node) == 1


def test_edits_by_hand(registry: Registry) -> None:
    registry.create_channel("t", "c")
    registry.create_topic("u")
    assert registry.topics() == ["t", "u"]
    assert registry.has_topic("u")
    assert registry.delete_channel("t", "c")
    assert not registry.delete_channel("t", "c")
    assert not registry.delete_channel("nope", "c")
    assert registry.topics() == ["t", "u"]
    registry.delete_topic("t")
    registry.delete_topic("t")
    assert registry.topics() == ["u"]


def test_deleting_a_topic_that_somebody_has(registry: Registry) -> None:
    producer = join(registry)
    registry.register(producer, "t", "c")
    registry.delete_topic("t")
    assert not registry.has_topic("t")
    assert registry.channels("t") == []
    assert registry.nodes() == [(producer, [])]
    registry.register(producer, "t")
    assert registry.topic_producers("t") == [producer]
    registry.disconnect(producer)


def test_a_star_is_a_name_like_any_other(registry: Registry) -> None:
    registry.register(join(registry), "t", "c")
    assert not registry.has_topic("*")
    assert registry.channels("*") == []
    assert registry.tombstone("*", "127.0.0.1:4151") == 0
    registry.delete_topic("*")
    assert registry.has_topic("t")

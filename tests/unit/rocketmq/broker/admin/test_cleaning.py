"""Letting go of what nobody needs, on demand."""

from __future__ import annotations

import pytest

from penstock.core.units import HOUR
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.admin import cleaning
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.log import Log, LogOptions
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, request

CONNECTION = FakePeer().connection
KEPT = 72 * HOUR


async def fill(node: Node, topic: str, queues: int) -> None:
    """A topic that is kept for a time, with many small segments."""
    node.topics.put(TopicConfig(topic, queues, queues), node.now_ms)
    found = node.store.topic(topic)
    found.retention = Retention(time_ns=KEPT)
    assert isinstance(found.log, Log)
    found.log.options = LogOptions(max_bytes_per_file=1000)
    for number in range(12):
        await store(node, topic, number % queues, bytes(300))


async def test_what_retention_does_not_keep_is_deleted(node: Node, clock: FakeClock) -> None:
    await fill(node, "T", 1)
    asked = request(RequestCode.DELETE_EXPIRED_COMMITLOG)
    clock.advance(KEPT)
    assert cleaning.delete_expired_messages(node, CONNECTION, asked).code == 0
    assert node.store.bounds("T", 0) == (0, 12)
    clock.advance(1)
    assert cleaning.delete_expired_messages(node, CONNECTION, asked).code == 0
    low, high = node.store.bounds("T", 0)
    assert 0 < low < high == 12
    assert node.store.message_at("T", 0, low) is not None


async def test_queues_forget_what_is_gone(
    node: Node, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(node, "T", 2)
    queues, trimmed = node.store.topic("T").queues, []
    monkeypatch.setattr(queues, "trim", lambda: trimmed.append("T"))
    asked = request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert cleaning.clean_expired_queues(node, CONNECTION, asked).code == 0
    assert trimmed == ["T"]
    assert node.store.bounds("T", 1) == (0, 6)


async def test_the_data_of_topics_without_configuration(node: Node) -> None:
    broker = node.base.broker
    for name in ("kept", "left", "read", "replayed"):
        await store(node, name, 0, b"1")
    node.topics.put(TopicConfig("kept", 1, 1), node.now_ms)
    broker.topics["read"].channel("c")
    broker.topics["replayed"].commit_group("g", None)
    node.host.publish(
        node.base.registry.topic("nsq"), Bodies.from_list([b"1"]), lambda error: None, 0
    )
    node.base.registry.topic("empty")
    asked = request(RequestCode.CLEAN_UNUSED_TOPIC)
    answer = await cleaning.clean_unused_topics(node, CONNECTION, asked)
    assert answer.code == 0
    assert sorted(broker.topics) == ["empty", "kept", "nsq", "read", "replayed"]
    assert node.store.bounds("left", 0) == (0, 0)
    assert node.stats.view("TOPIC_PUT_NUMS", "left") is None

"""Letting go of what nobody needs, on demand."""

from __future__ import annotations

import pytest

from penstock.core.units import HOUR
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.log import Log, LogOptions
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, answered_later, request

CONNECTION = FakePeer().connection
KEPT = 72 * HOUR


async def fill(services: Services, topic: str, queues: int) -> None:
    """A topic that is kept for a time, with many small segments."""
    services.topics.put(TopicConfig(topic, queues, queues), services.now_ms)
    found = services.store.topic(topic)
    found.retention = Retention(time_ns=KEPT)
    assert isinstance(found.log, Log)
    found.log.options = LogOptions(max_bytes_per_file=1000)
    for number in range(12):
        await store(services, topic, number % queues, bytes(300))


async def test_what_retention_does_not_keep_is_deleted(
    services: Services, clock: FakeClock
) -> None:
    await fill(services, "T", 1)
    asked = request(RequestCode.DELETE_EXPIRED_COMMITLOG)
    clock.advance(KEPT)
    assert answered(services, CONNECTION, asked).code == 0
    assert services.store.bounds("T", 0) == (0, 12)
    clock.advance(1)
    assert answered(services, CONNECTION, asked).code == 0
    low, high = services.store.bounds("T", 0)
    assert 0 < low < high == 12
    assert services.store.message_at("T", 0, low) is not None


async def test_queues_forget_what_is_gone(
    services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(services, "T", 2)
    queues, trimmed = services.store.topic("T").queues, []
    monkeypatch.setattr(queues, "trim", lambda: trimmed.append("T"))
    asked = request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert answered(services, CONNECTION, asked).code == 0
    assert trimmed == ["T"]
    assert services.store.bounds("T", 1) == (0, 6)


async def test_the_data_of_topics_without_configuration(services: Services) -> None:
    broker = services.node.broker
    for name in ("kept", "left", "read", "replayed"):
        await store(services, name, 0, b"1")
    services.topics.put(TopicConfig("kept", 1, 1), services.now_ms)
    broker.topics["read"].channel("c")
    broker.topics["replayed"].commit_group("g", None)
    topic = services.node.registry.topic("nsq")
    services.node.commits.publish(topic, Bodies.from_list([b"1"]), 0, lambda error: None)
    services.node.registry.topic("empty")
    asked = request(RequestCode.CLEAN_UNUSED_TOPIC)
    answer = await answered_later(services, CONNECTION, asked)
    assert answer.code == 0
    assert sorted(broker.topics) == ["empty", "kept", "nsq", "read", "replayed"]
    assert services.store.bounds("left", 0) == (0, 0)
    assert services.stats.view("TOPIC_PUT_NUMS", "left") is None

"""How long messages stay, by who made their topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.publish.bounds import Bounds
from penstock.core.units import HOUR
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.retention import FILE, TopicRetention
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.retention import Retention
from tests.unit.rocketmq.broker.filling import store


async def test_rocketmqs_are_kept_for_a_time_and_nsqs_until_they_are_read(
    services: Services,
) -> None:
    ours, theirs = services.node.registry.topic("ours"), services.node.registry.topic("theirs")
    services.retention.made_by_nsq(["theirs"])
    for topic in (ours, theirs):
        services.retention.adopt(topic)
    assert ours.retention == Retention(time_ns=72 * HOUR)
    assert theirs.retention is None
    await store(services, "ours", 0, b"a", b"b")
    await store(services, "theirs", 0, b"a", b"b")
    assert (ours.floor(), theirs.floor()) == (2, 0)


async def test_groups_hold_nsqs_topics(services: Services) -> None:
    topic = services.node.registry.topic("T")
    services.topics.put(TopicConfig("T", 2, 2), services.now_ms)
    services.retention.made_by_nsq(["T"])
    for number in range(6):
        await store(services, "T", number % 2, b"%d" % number)
    services.offsets.commit("T", "G", 0, 2)
    services.offsets.commit("T", "G", 1, 1)
    services.offsets.commit("T", "done", 0, 3)
    services.offsets.commit("T", "done", 1, 3)
    services.offsets.commit("T", "half", 1, 3)
    services.retention.hold()
    assert topic.groups == {"rocketmq:G": 3, "rocketmq:done": 6, "rocketmq:half": 0}
    services.offsets.commit("T", "half", 0, 3)
    services.offsets.forget_group("G")
    services.retention.hold()
    assert topic.groups == {"rocketmq:done": 6, "rocketmq:half": 6}
    services.offsets.commit("other", "G", 0, 1)
    services.retention.hold()
    assert "other" not in services.node.broker.topics


def test_who_made_a_topic_is_kept(services: Services) -> None:
    services.retention.made_by_nsq(["a", "b"])
    services.retention.forget("a")
    services.retention.forget("unknown")
    again = TopicRetention(services.settings, services.topics, services.offsets, services.store,
                           services.files)  # fmt: skip
    again.load(services.retention.as_json())
    for name, kept in (("a", True), ("b", False)):
        topic = services.node.registry.topic(name)
        again.adopt(topic)
        assert (topic.retention is not None) is kept


@pytest.mark.parametrize("value", [None, {}, {"topics": 5}])
def test_a_file_that_is_none(services: Services, value: object) -> None:
    services.files.save(FILE)
    with pytest.raises(BodyError):
        services.retention.load(value)


async def test_where_messages_wait_is_not_bounded_as_others_are(services: Services) -> None:
    broker = services.node.broker
    broker._options = replace(broker._options, bounds=Bounds(max_depth=2))
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC, "T"):
        services.retention.adopt(services.node.registry.topic(name))
        await store(services, name, 0, b"1", b"2")
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC):
        await store(services, name, 0, b"3")
    with pytest.raises(AssertionError, match="topic is full"):
        await store(services, "T", 0, b"3")
    bounded = broker.topics[names.SCHEDULE_TOPIC]
    bounded.configure(TopicSettings(max_depth=3))
    services.retention.adopt(bounded)
    with pytest.raises(AssertionError, match="topic is full"):
        await store(services, bounded.name, 0, b"4")

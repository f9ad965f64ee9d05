"""How long messages stay, by who made their topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.progress import TopicSettings
from penstock.broker.publish.bounds import Bounds
from penstock.core.units import HOUR
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.store.retention import FILE, TopicRetention
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.retention import Retention
from tests.unit.rocketmq.broker.filling import store


async def test_rocketmqs_are_kept_for_a_time_and_nsqs_until_they_are_read(
    controller: Controller,
) -> None:
    ours, theirs = controller.node.registry.topic("ours"), controller.node.registry.topic("theirs")
    controller.retention.made_by_nsq(["theirs"])
    for topic in (ours, theirs):
        controller.retention.adopt(topic)
    assert ours.retention == Retention(time_ns=72 * HOUR)
    assert theirs.retention is None
    await store(controller, "ours", 0, b"a", b"b")
    await store(controller, "theirs", 0, b"a", b"b")
    assert (ours.floor(), theirs.floor()) == (2, 0)


async def test_groups_hold_nsqs_topics(controller: Controller) -> None:
    topic = controller.node.registry.topic("T")
    controller.topics.put(TopicConfig("T", 2, 2), controller.now_ms)
    controller.retention.made_by_nsq(["T"])
    for number in range(6):
        await store(controller, "T", number % 2, b"%d" % number)
    controller.offsets.commit("T", "G", 0, 2)
    controller.offsets.commit("T", "G", 1, 1)
    controller.offsets.commit("T", "done", 0, 3)
    controller.offsets.commit("T", "done", 1, 3)
    controller.offsets.commit("T", "half", 1, 3)
    controller.retention.hold()
    assert topic.groups == {"rocketmq:G": 3, "rocketmq:done": 6, "rocketmq:half": 0}
    controller.offsets.commit("T", "half", 0, 3)
    controller.offsets.forget_group("G")
    controller.retention.hold()
    assert topic.groups == {"rocketmq:done": 6, "rocketmq:half": 6}
    controller.offsets.commit("other", "G", 0, 1)
    controller.retention.hold()
    assert "other" not in controller.node.broker.topics


def test_who_made_a_topic_is_kept(controller: Controller) -> None:
    controller.retention.made_by_nsq(["a", "b"])
    controller.retention.forget("a")
    controller.retention.forget("unknown")
    again = TopicRetention(controller)
    for name, kept in (("a", True), ("b", False)):
        topic = controller.node.registry.topic(name)
        again.adopt(topic)
        assert (topic.retention is not None) is kept


@pytest.mark.parametrize("value", [None, {}, {"topics": 5}])
def test_a_file_that_is_none(controller: Controller, value: object) -> None:
    controller.state.save(FILE)
    with pytest.raises(BodyError):
        controller.retention._load(value)


async def test_where_messages_wait_is_not_bounded_as_others_are(controller: Controller) -> None:
    broker = controller.node.broker
    broker._options = replace(broker._options, bounds=Bounds(max_depth=2))
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC, "T"):
        controller.retention.adopt(controller.node.registry.topic(name))
        await store(controller, name, 0, b"1", b"2")
    for name in (names.SCHEDULE_TOPIC, names.HALF_TOPIC):
        await store(controller, name, 0, b"3")
    with pytest.raises(AssertionError, match="topic is full"):
        await store(controller, "T", 0, b"3")
    bounded = broker.topics[names.SCHEDULE_TOPIC]
    bounded.configure(TopicSettings(max_depth=3))
    controller.retention.adopt(bounded)
    with pytest.raises(AssertionError, match="topic is full"):
        await store(controller, bounded.name, 0, b"4")

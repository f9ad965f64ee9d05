"""How long messages stay, by who made their topic."""

from __future__ import annotations

import pytest

from penstock.core.units import HOUR
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.retention import FILE, TopicRetention
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.retention import Retention

from .filling import store


async def test_rocketmqs_are_kept_for_a_time_and_nsqs_until_they_are_read(node: Node) -> None:
    ours, theirs = node.base.registry.topic("ours"), node.base.registry.topic("theirs")
    node.retention.made_by_nsq(["theirs"])
    for topic in (ours, theirs):
        node.retention.adopt(topic)
    assert ours.retention == Retention(time_ns=72 * HOUR)
    assert theirs.retention is None
    await store(node, "ours", 0, b"a", b"b")
    await store(node, "theirs", 0, b"a", b"b")
    assert (ours.floor(), theirs.floor()) == (2, 0)


async def test_groups_hold_nsqs_topics(node: Node) -> None:
    topic = node.base.registry.topic("T")
    node.topics.put(TopicConfig("T", 2, 2), node.now_ms)
    node.retention.made_by_nsq(["T"])
    for number in range(6):
        await store(node, "T", number % 2, b"%d" % number)
    node.offsets.commit("T", "G", 0, 2)
    node.offsets.commit("T", "G", 1, 1)
    node.offsets.commit("T", "done", 0, 3)
    node.offsets.commit("T", "done", 1, 3)
    node.offsets.commit("T", "half", 1, 3)
    node.retention.hold()
    assert topic.groups == {"rocketmq:G": 3, "rocketmq:done": 6, "rocketmq:half": 0}
    node.offsets.commit("T", "half", 0, 3)
    node.offsets.forget_group("G")
    node.retention.hold()
    assert topic.groups == {"rocketmq:done": 6, "rocketmq:half": 6}
    node.offsets.commit("other", "G", 0, 1)
    node.retention.hold()
    assert "other" not in node.base.broker.topics


def test_who_made_a_topic_is_kept(node: Node) -> None:
    node.retention.made_by_nsq(["a", "b"])
    node.retention.forget("a")
    node.retention.forget("unknown")
    again = TopicRetention(node)
    for name, kept in (("a", True), ("b", False)):
        topic = node.base.registry.topic(name)
        again.adopt(topic)
        assert (topic.retention is not None) is kept


@pytest.mark.parametrize("value", [None, {}, {"topics": 5}])
def test_a_file_that_is_none(node: Node, value: object) -> None:
    node.state.save(FILE)
    with pytest.raises(BodyError):
        node.retention._load(value)

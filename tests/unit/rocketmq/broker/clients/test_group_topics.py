"""What groups have of their own."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.clients import group_topics
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.state.groups import GroupConfig


def test_made_once_and_registered(controller: Controller) -> None:
    changes: list[None] = []
    controller.topics_listeners.append(lambda: changes.append(None))
    controller.groups.put(GroupConfig("G", retry_queue_nums=3), controller.now_ms)
    config = group_topics.need_group(controller, "G")
    topic = group_topics.retry_topic(controller, config, unit_mode=True)
    assert (topic.name, topic.read_queues, topic.write_queues) == ("%RETRY%G", 3, 3)
    assert (topic.perm, topic.sys_flag) == (6, 2)
    assert group_topics.retry_topic(controller, config) is topic
    dead = group_topics.dead_letter_topic(controller, "G")
    assert (dead.name, dead.read_queues, dead.write_queues, dead.perm) == ("%DLQ%G", 1, 1, 6)
    assert len(changes) == 2


def test_groups_that_there_are_not(controller: Controller) -> None:
    assert group_topics.need_group(controller, "new").group_name == "new"
    controller.settings.auto_create_subscription_group = False
    with pytest.raises(RefusedError, match="subscription group not exist, newer") as refusal:
        group_topics.need_group(controller, "newer")
    assert refusal.value.code == 26
    with pytest.raises(RefusedError, match="illegal characters") as refusal:
        group_topics.need_group(controller, "no such name")
    assert refusal.value.code == 1

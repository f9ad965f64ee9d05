"""What groups have of their own."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig


def test_made_once_and_registered(services: Services) -> None:
    changes: list[None] = []
    services.topics.listeners.append(lambda: changes.append(None))
    services.groups.put(GroupConfig("G", retry_queue_nums=3), services.now_ms)
    config = services.group_topics.need("G")
    topic = services.group_topics.retry_topic(config, unit_mode=True)
    assert (topic.name, topic.read_queues, topic.write_queues) == ("%RETRY%G", 3, 3)
    assert (topic.perm, topic.sys_flag) == (6, 2)
    assert services.group_topics.retry_topic(config) is topic
    dead = services.group_topics.dead_letter_topic("G")
    assert (dead.name, dead.read_queues, dead.write_queues, dead.perm) == ("%DLQ%G", 1, 1, 6)
    assert len(changes) == 2


def test_groups_that_there_are_not(services: Services) -> None:
    assert services.group_topics.need("new").group_name == "new"
    services.settings.auto_create_subscription_group = False
    with pytest.raises(RefusedError, match="subscription group not exist, newer") as refusal:
        services.group_topics.need("newer")
    assert refusal.value.code == 26
    with pytest.raises(RefusedError, match="illegal characters") as refusal:
        services.group_topics.need("no such name")
    assert refusal.value.code == 1

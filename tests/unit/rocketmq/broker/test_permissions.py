from __future__ import annotations

import pytest

from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.topics import READ, WRITE
from penstock.rocketmq.protocol.registration import TopicConfig


def test_a_topic_is_known_or_refused(services: Services) -> None:
    config = TopicConfig("T", 1, 1)
    services.topics.put(config, 1)
    assert permissions.known_topic(services.topics, "T") is config
    with pytest.raises(RefusedError, match=r"topic\[U\] not exist") as refused:
        permissions.known_topic(services.topics, "U")
    assert refused.value.code == 17


@pytest.mark.parametrize(("permission", "word"), [(READ, "pulling"), (WRITE, "sending")])
def test_each_permission_is_looked_at_alone(services: Services, permission: int, word: str) -> None:
    config = TopicConfig("T", 1, 1, permission)
    services.settings.broker_permission = permission
    permissions.need_broker(services.settings, permission)
    permissions.need_topic(config, permission)
    config.perm = services.settings.broker_permission = READ + WRITE - permission
    with pytest.raises(RefusedError, match=rf"the topic\[T\] {word} message") as refused:
        permissions.need_topic(config, permission)
    assert refused.value.code == 16
    with pytest.raises(RefusedError, match=rf"the broker\[127.0.0.1\] {word} message"):
        permissions.need_broker(services.settings, permission)

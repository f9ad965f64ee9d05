"""Checks of what a client may do with a topic and with the broker; each refusal has one home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.topic_table import READ, WRITE
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.registration import TopicConfig

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.group_table import GroupConfig
    from penstock.rocketmq.broker.state.topic_table import TopicTable

_DOING: Final = {READ: "pulling", WRITE: "sending"}


def known_topic(topics: TopicTable, name: str) -> TopicConfig:
    """A topic's configuration. Raises RefusedError when there is no such topic."""
    config = topics.get(name)
    if config is None:
        raise no_topic(name)
    return config


def no_topic(name: str) -> RefusedError:
    """The refusal for a topic that is not there."""
    remark = f"topic[{name}] not exist, apply first please!"
    return RefusedError(ResponseCode.TOPIC_NOT_EXIST, remark)


def need_broker(settings: BrokerSettings, permission: int) -> None:
    """Raise RefusedError when the broker as a whole does not allow READ or WRITE."""
    if not settings.broker_permission & permission:
        remark = f"the broker[{settings.broker_ip1}] {_DOING[permission]} message is forbidden"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)


def need_topic(config: TopicConfig, permission: int) -> None:
    """Raise RefusedError when a topic does not allow READ or WRITE."""
    if not config.perm & permission:
        remark = f"the topic[{config.name}] {_DOING[permission]} message is forbidden"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)


def may_consume(
    settings: BrokerSettings, config: TopicConfig | None, group: GroupConfig | None
) -> bool:
    """True while broker, topic and group all allow a group to read a topic.

    For requests that wait, which were allowed when they came.
    """
    is_readable = config is not None and settings.broker_permission & config.perm & READ
    return bool(is_readable) and (group is None or group.consume_enable)

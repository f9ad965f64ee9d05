"""The parts of a group: its configuration, retry topic and dead-letter topic.

All are made when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.registration import TopicConfig

if TYPE_CHECKING:
    from penstock.rocketmq.broker.tables import Tables

DEAD_LETTER_QUEUES: Final = 1
_UNIT_SUBSCRIBED: Final = 2
"""Bit of a topic's sysFlag: consumers of unit mode subscribe to it."""


def group_config(tables: Tables, group: str) -> GroupConfig | None:
    """A group's configuration, made when that is allowed; None when it does not exist.

    Raises BodyError when there are too many groups.
    """
    auto_create = tables.settings.auto_create_subscription_group
    return tables.groups.find(group, tables.now_ms, auto_create=auto_create)


def need_group(tables: Tables, group: str) -> GroupConfig:
    """A group's configuration. Raises RefusedError when there is no such group."""
    problem = names.group_problem(group)
    if problem is not None:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
    config = group_config(tables, group)
    if config is None:
        remark = f"subscription group not exist, {group}"
        raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return config


def retry_topic(tables: Tables, config: GroupConfig, *, unit_mode: bool = False) -> TopicConfig:
    """The topic where a group's messages wait to come again, made when it is not there."""
    sys_flag = _UNIT_SUBSCRIBED if unit_mode else 0
    name = names.retry_topic(config.group_name)
    return _inner(tables, name, max(1, config.retry_queue_nums), sys_flag)


def dead_letter_topic(tables: Tables, group: str) -> TopicConfig:
    """The topic of a group's messages that failed too often, made when it is not there."""
    return _inner(tables, names.dead_letter_topic(group), DEAD_LETTER_QUEUES)


def _inner(tables: Tables, name: str, queues: int, sys_flag: int = 0) -> TopicConfig:
    config = tables.topics.get(name)
    if config is None:
        config = tables.topics.make_inner(name, queues, tables.now_ms, sys_flag)
        tables.topics_changed()
    return config

"""The parts of a group: its configuration, retry topic and dead-letter topic.

All are made when they are first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.group_table import GroupConfig, GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.protocol.registration import TopicConfig

DEAD_LETTER_QUEUES: Final = 1
_UNIT_SUBSCRIBED: Final = 2
"""Bit of a topic's sysFlag: consumers of unit mode subscribe to it."""


@dataclass(slots=True, eq=False)
class GroupTopics:
    """The configurations and own topics of groups."""

    settings: BrokerSettings
    topics: TopicTable
    groups: GroupTable
    clock: Clock

    def config(self, group: str) -> GroupConfig | None:
        """A group's configuration, made when that is allowed; None when it does not exist.

        Raises BodyError when there are too many groups.
        """
        auto_create = self.settings.auto_create_subscription_group
        return self.groups.find(group, wall_ms(self.clock), auto_create=auto_create)

    def need(self, group: str) -> GroupConfig:
        """A group's configuration. Raises RefusedError when there is no such group."""
        problem = names.group_problem(group)
        if problem is not None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        config = self.config(group)
        if config is None:
            remark = f"subscription group not exist, {group}"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return config

    def retry_topic(self, config: GroupConfig, *, unit_mode: bool = False) -> TopicConfig:
        """The topic where a group's messages wait to come again, made when it is not there."""
        sys_flag = _UNIT_SUBSCRIBED if unit_mode else 0
        name = names.retry_topic(config.group_name)
        return self._inner(name, max(1, config.retry_queue_nums), sys_flag)

    def dead_letter_topic(self, group: str) -> TopicConfig:
        """The topic of a group's messages that failed too often, made when it is not there."""
        return self._inner(names.dead_letter_topic(group), DEAD_LETTER_QUEUES)

    def _inner(self, name: str, queues: int, sys_flag: int = 0) -> TopicConfig:
        config = self.topics.get(name)
        if config is None:
            config = self.topics.make_inner(name, queues, wall_ms(self.clock), sys_flag)
            self.topics.changed()
        return config

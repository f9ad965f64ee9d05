"""Consumer groups are made, changed, deleted and listed (RocketMQ spec 2.4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.clock import wall_ms
from penstock.rocketmq.broker import attributes, names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.pop.pops import Pops
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True, eq=False)
class GroupCommands:
    """Commands about the configurations of groups."""

    groups: GroupTable
    offsets: ConsumerOffsets
    stats: Stats
    files: StateFiles
    group_topics: GroupTopics
    pops: Pops
    clock: Clock

    @answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    def update_group(self, connection: Connection, request: Command) -> Command:
        """Make or change a group; it is written down before the answer."""
        self._put(connection, [self._wanted(fastjson.loads(request.body))])
        return request.answer()

    @answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
    def update_groups(self, connection: Connection, request: Command) -> Command:
        """Make or change several groups, all or none of them."""
        value = fastjson.loads(request.body)
        listed = value.get("groupConfigList") if isinstance(value, dict) else None
        if not isinstance(listed, list):
            raise BodyError("a list of groups without groupConfigList")
        self._put(connection, [self._wanted(each) for each in listed])
        return request.answer()

    def _wanted(self, value: Any) -> GroupConfig:
        """The group that a request asks for; its attributes are alterations of those there are."""
        config = GroupConfig.from_json(value)
        known = self.groups.get(config.group_name)
        # Java 5.3 admits no key at all here, and later versions ever more of them.
        before = None if known is None else known.attributes
        config.attributes = attributes.altered(before, config.attributes)
        problem = names.group_problem(config.group_name)
        if problem is not None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
        return config

    def _put(self, connection: Connection, configs: list[GroupConfig]) -> None:
        self.groups.put_all(configs, wall_ms(self.clock))
        for config in configs:
            logger.info("%s set the group %s", connection.address, config.group_name)
        self.files.save(files.GROUPS)

    @answers(RequestCode.DELETE_SUBSCRIPTIONGROUP)
    def delete_group(self, connection: Connection, request: Command) -> Command:
        """Delete a group, with its offsets if wanted; its retry topic is another request."""
        name = request.text("groupName")
        logger.info("%s deletes the group %s", connection.address, name)
        if self.groups.delete(name, wall_ms(self.clock)) is not None:
            self.files.save(files.GROUPS)
            self.stats.forget_group(name)
        if request.boolean("removeOffset") or request.boolean("cleanOffset"):  # 4.9 and 5.x
            self.offsets.forget_group(name)
        # Whatever is asked of offsets: a group made under this name again has no batches out.
        self.pops.ordered.forget_group(name)
        self.files.save(files.OFFSETS)
        return request.answer()

    @answers(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    def all_groups(self, connection: Connection, request: Command) -> Command:
        return json_answer(request, self.groups.as_json())

    @answers(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
    def group_config(self, connection: Connection, request: Command) -> Command:
        """Made by asking, as by consuming, where groups may be made so."""
        name = request.text("group")
        config = None if names.group_problem(name) else self.group_topics.config(name)
        if config is None:
            remark = "No group in this broker"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return json_answer(request, config.as_json())

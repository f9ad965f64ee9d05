"""Consumer groups are made, changed, deleted and listed (RocketMQ spec 2.4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.rocketmq.broker import attributes, names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.clients import group_topics
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


@answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
def update_group(controller: Controller, connection: Connection, request: Command) -> Command:
    """Make or change a group; it is written down before the answer."""
    _put(controller, connection, [_wanted(controller, fastjson.loads(request.body))])
    return request.answer()


@answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
def update_groups(controller: Controller, connection: Connection, request: Command) -> Command:
    """Make or change several groups, all or none of them."""
    value = fastjson.loads(request.body)
    listed = value.get("groupConfigList") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise BodyError("a list of groups without groupConfigList")
    _put(controller, connection, [_wanted(controller, each) for each in listed])
    return request.answer()


def _wanted(controller: Controller, value: Any) -> GroupConfig:
    """The group that a request asks for; its attributes are alterations of those there are."""
    config = GroupConfig.from_json(value)
    known = controller.groups.get(config.group_name)
    # Java 5.3 admits no key at all here, and later versions ever more of them.
    before = None if known is None else known.attributes
    config.attributes = attributes.altered(before, config.attributes)
    problem = names.group_problem(config.group_name)
    if problem is not None:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)
    return config


def _put(controller: Controller, connection: Connection, configs: list[GroupConfig]) -> None:
    controller.groups.put_all(configs, controller.now_ms)
    for config in configs:
        logger.info("%s set the group %s", connection.address, config.group_name)
    controller.state.save(files.GROUPS)


@answers(RequestCode.DELETE_SUBSCRIPTIONGROUP)
def delete_group(controller: Controller, connection: Connection, request: Command) -> Command:
    """Delete a group, with its offsets if that is wanted; its retry topic is another request."""
    name = request.text("groupName")
    logger.info("%s deletes the group %s", connection.address, name)
    if controller.groups.delete(name, controller.now_ms) is not None:
        controller.state.save(files.GROUPS)
        controller.stats.forget_group(name)
    if request.boolean("removeOffset") or request.boolean("cleanOffset"):  # 4.9 and 5.x
        controller.offsets.forget_group(name)
    controller.pops.ordered.forget_group(name)
    controller.offsets_changed()
    return request.answer()


@answers(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
def all_groups(controller: Controller, connection: Connection, request: Command) -> Command:
    return json_answer(request, controller.groups.as_json())


@answers(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
def group_config(controller: Controller, connection: Connection, request: Command) -> Command:
    """Made by asking, as by consuming, where groups may be made so."""
    name = request.text("group")
    config = None if names.group_problem(name) else group_topics.group_config(controller, name)
    if config is None:
        remark = "No group in this broker"
        raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return json_answer(request, config.as_json())

"""The broker's configuration is read and changed while it runs (reference 2.5)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.core.errors import ConfigError
from penstock.rocketmq import config_file
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.broker.settings import BrokerSettings
    from penstock.rocketmq.remoting import Connection

_log = logging.getLogger("penstock.mqbroker")


@answers(RequestCode.UPDATE_BROKER_CONFIG)
async def update_config(node: Node, connection: Connection, request: Command) -> Command:
    """Take over properties now, and write them down for the next start."""
    settings, values = node.settings, config_file.asked(request.body)
    _check_allowed(settings, values)
    path, fixed = settings.broker_config_path, settings.fixed_names()
    try:
        known, unknown = config_file.apply(node.state.disk, path, settings, values, fixed)
    except ConfigError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    for name in unknown:
        _log.warning("%s set the unknown property %s", connection.address, name)
    if known:
        _log.info("%s set %s", connection.address, " ".join(f"{n}={v}" for n, v in known.items()))
        node.config_version.next(node.now_ms)
        await _take_effect(node, known)
    return request.answer()


def _check_allowed(settings: BrokerSettings, values: dict[str, str]) -> None:
    if settings.black_list() & set(values):
        raise RefusedError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for name in values:
        if name in settings.fixed:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                f"{name} cannot change while the broker runs: set it in its configuration file",
            )


async def _take_effect(node: Node, values: dict[str, str]) -> None:
    """What does not look at its property each time hears of the change."""
    settings = node.settings
    if "namesrvAddr" in values and node.name_servers is not None:
        node.name_servers.set_addresses(settings.name_servers())
    if "fileReservedTime" in values:
        node.retention.adopt_all()
    counter = node.topics.version.counter
    node.topics.set_template(
        settings.default_topic_queue_nums, node.now_ms, inherited=settings.auto_create_topic_enable
    )
    if "brokerPermission" in values:  # a part of what is registered of each topic
        node.topics.version.next(node.now_ms)
    if node.topics.version.counter != counter:
        node.topics_changed()
        await node.registered()


@answers(RequestCode.GET_BROKER_CONFIG)
def get_config(node: Node, connection: Connection, request: Command) -> Command:
    version = fastjson.dumps(node.config_version.as_json()).decode()
    return request.answer(ext={"version": version}, body=node.settings.as_text().encode())

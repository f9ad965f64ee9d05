"""The broker's configuration is read and changed while it runs (RocketMQ spec 2.5)."""

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
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.broker.settings import BrokerSettings
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


@answers(RequestCode.UPDATE_BROKER_CONFIG)
async def update_config(
    controller: Controller, connection: Connection, request: Command
) -> Command:
    """Take over properties now, and write them down for the next start."""
    settings, values = controller.settings, config_file.asked(request.body)
    _check_allowed(settings, values)
    path, fixed = settings.broker_config_path, settings.fixed_names()
    try:
        known, unknown = config_file.apply(controller.state.disk, path, settings, values, fixed)
    except ConfigError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
    for name in unknown:
        logger.warning("%s set the unknown property %s", connection.address, name)
    if known:
        logger.info("%s set %s", connection.address, " ".join(f"{n}={v}" for n, v in known.items()))
        controller.config_version.next(controller.now_ms)
        await _take_effect(controller, known)
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


async def _take_effect(controller: Controller, values: dict[str, str]) -> None:
    """Tell the parts that do not read their property at each use about the change."""
    settings = controller.settings
    if "namesrvAddr" in values:
        controller.name_servers.set_addresses(settings.name_servers())
    if "fileReservedTime" in values:
        controller.retention.adopt_all()
    counter = controller.topics.version.counter
    controller.topics.set_template(
        settings.default_topic_queue_nums,
        controller.now_ms,
        inherited=settings.auto_create_topic_enable,
    )
    if "brokerPermission" in values:  # a part of what is registered of each topic
        controller.topics.version.next(controller.now_ms)
    if controller.topics.version.counter != counter:
        controller.topics_changed()
        await controller.registered()


@answers(RequestCode.GET_BROKER_CONFIG)
def get_config(controller: Controller, connection: Connection, request: Command) -> Command:
    version = fastjson.dumps(controller.config_version.as_json()).decode()
    return request.answer(ext={"version": version}, body=controller.settings.as_text().encode())

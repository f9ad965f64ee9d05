"""The broker's configuration is read and changed while it runs (RocketMQ spec 2.5)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.clock import wall_ms
from penstock.core.errors import ConfigError
from penstock.rocketmq import config_file
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.topic_table import DataVersion, TopicTable
    from penstock.rocketmq.broker.store.retention import TopicRetention
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True, eq=False)
class ConfigCommands:
    """Commands about the broker's properties."""

    settings: BrokerSettings
    topics: TopicTable
    files: StateFiles
    retention: TopicRetention
    name_servers: NameServers
    config_version: DataVersion
    clock: Clock

    @answers(RequestCode.UPDATE_BROKER_CONFIG)
    async def update_config(self, connection: Connection, request: Command) -> Command:
        """Take over properties now, and write them down for the next start."""
        settings, values = self.settings, config_file.asked(request.body)
        _check_allowed(settings, values)
        path, fixed = settings.broker_config_path, settings.fixed_names()
        try:
            known, unknown = config_file.apply(self.files.disk, path, settings, values, fixed)
        except ConfigError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        for name in unknown:
            logger.warning("%s set the unknown property %s", connection.address, name)
        if known:
            logger.info(
                "%s set %s", connection.address, " ".join(f"{n}={v}" for n, v in known.items())
            )
            self.config_version.next(wall_ms(self.clock))
            await self._take_effect(known)
        return request.answer()

    async def _take_effect(self, values: dict[str, str]) -> None:
        """Tell the parts that do not read their property at each use about the change."""
        settings = self.settings
        if "namesrvAddr" in values:
            self.name_servers.set_addresses(settings.name_servers())
        if "fileReservedTime" in values:
            self.retention.adopt_all()
        # Name servers are told only if something changed of what is registered.
        counter = self.topics.version.counter
        self.topics.set_template(
            settings.default_topic_queue_nums,
            wall_ms(self.clock),
            inherited=settings.auto_create_topic_enable,
        )
        if "brokerPermission" in values:  # a part of what is registered of each topic
            self.topics.version.next(wall_ms(self.clock))
        if self.topics.version.counter != counter:
            self.topics.changed()
            await self.name_servers.registered()

    @answers(RequestCode.GET_BROKER_CONFIG)
    def get_config(self, connection: Connection, request: Command) -> Command:
        version = fastjson.dumps(self.config_version.as_json()).decode()
        return request.answer(ext={"version": version}, body=self.settings.as_text().encode())


def _check_allowed(settings: BrokerSettings, values: dict[str, str]) -> None:
    if settings.black_list() & set(values):
        raise RefusedError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for name in values:
        if name in settings.fixed:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                f"{name} cannot change while the broker runs: set it in its configuration file",
            )

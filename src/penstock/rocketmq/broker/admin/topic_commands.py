"""Topics are made, changed, deleted and listed (RocketMQ spec 2.4)."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import StorageError
from penstock.rocketmq.broker import attributes, names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.topic_table import QUEUES_MAX
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
_PERM_MAX: Final = 7
_SYSTEM_PREFIX: Final = "rmq_sys_"


@dataclass(slots=True, eq=False)
class TopicCommands:
    """Commands about the configurations of topics."""

    settings: BrokerSettings
    topics: TopicTable
    offsets: ConsumerOffsets
    files: StateFiles
    store: MessageStore
    name_servers: NameServers
    clock: Clock

    def system_topics(self) -> set[str]:
        """The names that are the broker's own."""
        cluster = self.settings.broker_cluster_name
        return {
            *names.SYSTEM_TOPICS,
            cluster,
            self.settings.broker_name,
            f"{cluster}_REPLY_TOPIC",
        }

    def _check_name(self, topic: str) -> None:
        problem = names.topic_problem(topic)
        if problem is None and (topic in self.system_topics() or topic.startswith(_SYSTEM_PREFIX)):
            problem = f"The topic[{topic}] is conflict with system topic."
        if problem is not None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)

    @answers(RequestCode.UPDATE_AND_CREATE_TOPIC)
    async def update_topic(self, connection: Connection, request: Command) -> Command:
        """Make or change a topic; name servers know it before the answer, so clients find it."""
        await self._put(connection, [self._wanted(request)])
        return request.answer()

    @answers(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
    async def update_topics(self, connection: Connection, request: Command) -> Command:
        """Make or change several topics, all or none of them."""
        value = fastjson.loads(request.body)
        listed = value.get("topicConfigList") if isinstance(value, dict) else None
        if not isinstance(listed, list):
            raise BodyError("a list of topics without topicConfigList")
        wanted = [TopicConfig.from_json(each) for each in listed]
        for config in wanted:
            config.attributes = self._attributes(config.name, config.attributes)
        await self._put(connection, wanted)
        return request.answer()

    def _wanted(self, request: Command) -> TopicConfig:
        """The topic that a request asks for; its attributes are alterations of those there are."""
        name = request.text("topic")
        wanted = attributes.parsed(request.optional("attributes") or "")
        known = self.topics.get(name)
        # A tool that says nothing of the order leaves it.
        is_ordered = known is not None and known.order
        return TopicConfig(
            name,
            request.int32("readQueueNums"),
            request.int32("writeQueueNums"),
            request.int32("perm"),
            request.text("topicFilterType"),
            request.int32("topicSysFlag", 0),
            request.boolean("order") if request.optional("order") else is_ordered,
            self._attributes(name, wanted),
        )

    def _attributes(self, name: str, wanted: dict[str, str]) -> dict[str, str]:
        known = self.topics.get(name)
        return attributes.of_topic(None if known is None else known.attributes, wanted)

    async def _put(self, connection: Connection, configs: Sequence[TopicConfig]) -> None:
        for config in configs:
            _check(config)
            self._check_name(config.name)
        for config in configs:
            self.topics.put(config, wall_ms(self.clock))
            self.store.configured(config.name)
            logger.info(
                "%s set the topic %s: %d queues to read, %d to write, permissions %d",
                connection.address,
                config.name,
                config.read_queues,
                config.write_queues,
                config.perm,
            )
        self.topics.changed()
        await self.name_servers.registered()

    @answers(RequestCode.DELETE_TOPIC_IN_BROKER)
    async def delete_topic(self, connection: Connection, request: Command) -> Command:
        """Delete a topic, its messages and all offsets in it; one that is not there is success."""
        name = request.optional("topic") or ""
        self._check_name(name)
        logger.info("%s deletes the topic %s", connection.address, name)
        # Out of the table first: what would send or pull now finds no topic.
        is_written = True
        config = self.topics.delete(name, wall_ms(self.clock))
        if config is not None:
            try:
                self.topics.changed()
            except StorageError:  # on a full disk, where deleting helps
                is_written = False
        try:
            await self.store.delete(name)
        finally:
            self._keep_or_forget(name, config)
        # Once more, as the deletion has made room.
        if not is_written:
            self.topics.changed()
        self.files.save(files.OFFSETS)
        await self.name_servers.registered()
        return request.answer()

    def _keep_or_forget(self, name: str, config: TopicConfig | None) -> None:
        """Forget the offsets in a topic that is gone. One that the disk refuses to delete goes on
        as it was: without its configuration a send would make another, and its groups would begin
        again.
        """
        if name not in self.store.topics:
            self.offsets.forget_topic(name)
        elif config is not None and self.topics.get(name) is None:
            self.topics.put(config, wall_ms(self.clock))
            with suppress(StorageError):  # the error that is told is the one of the deletion
                self.topics.changed()

    @answers(RequestCode.GET_ALL_TOPIC_CONFIG)
    def all_topics(self, connection: Connection, request: Command) -> Command:
        answer = json_answer(request, self.topics.as_json())
        answer.ext = {}
        return answer

    @answers(RequestCode.GET_TOPIC_CONFIG)
    def topic_config(self, connection: Connection, request: Command) -> Command:
        name = request.text("topic")
        config = self.topics.get(name)
        if config is None:
            remark = f"No topic in this broker. topic: {name}"
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, remark)
        return json_answer(request, config.as_json())

    @answers(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    def system_topic_list(self, connection: Connection, request: Command) -> Command:
        return json_answer(request, {"topicList": sorted(self.system_topics())})


def _check(config: TopicConfig) -> None:
    """Raise BodyError for values that no topic can have."""
    if config.filter_type not in _FILTER_TYPES:
        raise BodyError(
            f"topicFilterType is {config.filter_type}, neither SINGLE_TAG nor MULTI_TAG"
        )
    for name, value, most in (
        ("readQueueNums", config.read_queues, QUEUES_MAX),
        ("writeQueueNums", config.write_queues, QUEUES_MAX),
        ("perm", config.perm, _PERM_MAX),
    ):
        if not 0 <= value <= most:
            raise BodyError(f"the field {name} is {value}, where 0 to {most} are allowed")

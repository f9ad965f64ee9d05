"""Messages that a consumer could not handle and sends back: they come again, but not for ever.

A message goes to the dead letters when it was tried often enough, or when the consumer says so with
a negative level (RocketMQ spec 2.1, 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.send.retries import (
    Retries,
    most_times,
    next_try,
    origin,
    set_delay,
    set_policy_delay,
)
from penstock.rocketmq.broker.state.topic_table import WRITE
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.delays.publisher import Publisher
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection


@dataclass(slots=True, eq=False)
class SendBacks:
    """Answers to messages that are sent back."""

    settings: BrokerSettings
    topics: TopicTable
    stats: Stats
    store: MessageStore
    group_topics: GroupTopics
    retries: Retries
    publisher: Publisher
    name_servers: NameServers

    @answers(RequestCode.CONSUMER_SEND_MSG_BACK)
    async def send_back(self, connection: Connection, request: Command) -> Command:
        offset, level = request.int64("offset"), request.int32("delayLevel")
        config = self.group_topics.need(request.text("group"))
        permissions.need_broker(self.settings, WRITE)
        topics_before = self.topics.version.counter
        # Java answers success then, and the message does not come again.
        if config.retry_queue_nums <= 0:
            return request.answer()  # a group that wants no retries
        topic = self.group_topics.retry_topic(config, unit_mode=request.boolean("unitMode"))
        permissions.need_topic(topic, WRITE)
        stored = self.store.message(offset)
        if stored is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}"
            )
        most = most_times(config, _limit_of(request), request.version)
        draft = next_try(stored)
        # A negative level is how consumers ask for the dead letters at once.
        if level < 0 or stored.reconsume_times >= most:
            self.retries.to_dead_letters(draft, config.group_name)
        else:
            draft.topic = topic.name
            # Java takes any of them (RocketMQ spec 4.5); the offset spreads messages without
            # chance.
            draft.queue = offset % max(1, min(config.retry_queue_nums, topic.write_queues))
            # Java: level 0 leaves the delay to the broker, any other is taken as it is.
            if level:
                set_delay(draft, level)
            else:
                set_policy_delay(draft, config, stored.reconsume_times)
        await self.publisher.publish_one(draft)
        self.stats.sent_back(origin(draft), config.group_name)
        await self.name_servers.registered_since(topics_before)
        return request.answer()


def _limit_of(request: Command) -> int | None:
    return request.int32("maxReconsumeTimes") if request.optional("maxReconsumeTimes") else None

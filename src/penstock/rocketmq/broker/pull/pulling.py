"""Pulling: messages of a queue from an offset on, or the reason why none can be given.

See RocketMQ spec 2.2, 4.3.

A pull that finds nothing new may be held until a message comes; see ``long_poll``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.pull.pull_search import (
    COMMIT_OFFSET,
    TAKEN_AGAIN,
    Pulled,
    PullHeader,
    PullSearch,
)
from penstock.rocketmq.broker.state.sql92 import ExpressionError
from penstock.rocketmq.broker.state.subscriptions import SQL92, Subscription
from penstock.rocketmq.broker.state.topic_table import READ
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.pull.long_poll import HeldPulls
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

SUSPEND: Final = 2
SUBSCRIPTION: Final = 4


@dataclass(slots=True, eq=False)
class Pulling:
    """Answers to pulls."""

    settings: BrokerSettings
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    clients: Clients[Connection]
    store: MessageStore
    group_topics: GroupTopics
    search: PullSearch
    held_pulls: HeldPulls

    @answers(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def pull(self, connection: Connection, request: Command) -> Command | None:
        header = PullHeader.of(request)
        is_slave = self.settings.is_slave
        if is_slave and not self.settings.slave_read_enable:
            bounds = self.store.bounds(header.topic, header.queue)
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # the master is the one to ask
            nothing = Pulled(code, "", header.offset, *bounds)
            self.search.respond(connection, request, header, nothing)
            return None
        subscription = self.checked_subscription(connection, header)
        pulled = self.search.find(header, subscription)
        # After the search: a pull that fails commits nothing, and is repeated with its commit.
        commits = header.sys_flag & COMMIT_OFFSET and not request.flag & TAKEN_AGAIN
        if commits and not is_slave and header.commit_offset >= 0:
            self.offsets.commit(header.topic, header.group, header.queue, header.commit_offset)
        # RocketMQ spec 4.3: only 19 is held; 20 and 21 are answered at once.
        waits = pulled.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND
        if waits and self.held_pulls.hold(connection, request, header, subscription, pulled):
            return None
        self.search.respond(connection, request, header, pulled)
        return None

    def checked_subscription(self, connection: Connection, header: PullHeader) -> Subscription:
        """The subscription by which a pull is filtered. Raises RefusedError if not allowed."""
        permissions.need_broker(self.settings, READ)
        group = self.groups.get(header.group) or self.group_topics.need(header.group)
        if not group.consume_enable:
            remark = f"subscription group no permission, {header.group}"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        config = permissions.known_topic(self.topics, header.topic)
        permissions.need_topic(config, READ)
        # Java 4.9 answers 1, 5.x INVALID_PARAMETER; clients of both try again after 3 s.
        if not 0 <= header.queue < config.read_queues:
            remark = (
                f"queueId[{header.queue}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}] consumer:[{connection.address}]"
            )
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        # C++ and Python clients send their filter with each pull: their heartbeats lack parts.
        if header.sys_flag & SUBSCRIPTION:
            subscription = _own_subscription(header)
        else:
            subscription = self._known_subscription(header, group.consume_broadcast_enable)
        if subscription.kind == SQL92 and not self.settings.enable_property_filter:
            remark = (
                f"The broker does not support consumer to filter message by {subscription.kind}"
            )
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        is_retry = subscription.kind == SQL92 and header.topic.startswith(names.RETRY_PREFIX)
        # Java filters retries by their own topic's subscription then, which is *.
        if is_retry and not self.settings.filter_support_retry:
            return Subscription(header.topic)
        return subscription

    def _known_subscription(self, header: PullHeader, may_broadcast: bool) -> Subscription:
        """The subscription to the topic in the group's heartbeats."""
        group = self.clients.consumers.get(header.group)
        if group is None:
            remark = "the consumer's group info not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if group.is_broadcast and not may_broadcast:
            remark = f"the consumer group[{header.group}] can not consume by broadcast way"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            remark = "the consumer's subscription not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        # Java refuses a client that is ahead of its heartbeat; it pulls again after 3 s.
        if subscription.version < header.version:
            remark = "the consumer's subscription not latest"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
        if subscription.problem is not None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise RefusedError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        return subscription


def _own_subscription(header: PullHeader) -> Subscription:
    try:
        return Subscription.parse(header.topic, header.subscription, header.kind, header.version)
    except (BodyError, ExpressionError):
        remark = "parse the consumer's subscription failed"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None

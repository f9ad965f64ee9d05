"""Topics as the tools show them: bounds of queues, who consumes what (RocketMQ spec 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.protocol.ids import Host
    from penstock.rocketmq.protocol.registration import TopicConfig
    from penstock.rocketmq.remoting import Connection


@dataclass(slots=True, eq=False)
class TopicStats:
    """Answers about topics and their groups."""

    settings: BrokerSettings
    topics: TopicTable
    offsets: ConsumerOffsets
    clients: Clients[Connection]
    store: MessageStore
    address: Host

    @answers(RequestCode.GET_TOPIC_STATS_INFO)
    def topic_stats(self, connection: Connection, request: Command) -> Command:
        """The bounds of a topic's queues and when the newest message of each was stored."""
        topic = request.text("topic")
        table = {}
        for queue in range(known_topic(self.topics, topic).write_queues):
            low, high = self.store.bounds(topic, queue)
            table[MessageQueue(self.settings.broker_name, queue, topic)] = {
                "lastUpdateTimestamp": stored_ms(self.store, topic, queue, high - 1)
                if high > 0
                else 0,
                "maxOffset": high,
                "minOffset": low,
            }
        return json_answer(request, {"offsetTable": table})

    @answers(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
    def consumers_of_topic(self, connection: Connection, request: Command) -> Command:
        """The groups that subscribe to a topic now, or have committed offsets in it."""
        topic = request.text("topic")
        groups = dict.fromkeys((*self.clients.subscribers(topic), *self.offsets.groups_of(topic)))
        return json_answer(request, {"groupList": list(groups)})

    @answers(RequestCode.QUERY_TOPICS_BY_CONSUMER)
    def topics_of_consumer(self, connection: Connection, request: Command) -> Command:
        """The topics in which a group has committed offsets."""
        topics = self.offsets.topics_of(request.text("group"))
        return json_answer(request, {"brokerAddr": str(self.address), "topicList": topics})

    @answers(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
    def subscription_of_consumer(self, connection: Connection, request: Command) -> Command:
        """The subscription of a group to a topic; without ``subscriptionData`` if it has none."""
        name, topic = request.text("group"), request.optional("topic")
        group = self.clients.consumers.get(name)
        found = group.subscriptions.get(topic) if group is not None and topic else None
        return json_answer(
            request,
            {
                "group": name,
                "subscriptionData": found.as_json() if found is not None else None,
                "topic": topic,
            },
        )


def known_topic(topics: TopicTable, name: str) -> TopicConfig:
    """The configuration of a topic. Raises RefusedError when it does not exist."""
    config = topics.get(name)
    if config is None:
        raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return config


def stored_ms(store: MessageStore, topic: str, queue: int, offset: int) -> int:
    """The time when the message at a queue offset was stored; -1 when it is not there."""
    found = store.stored_ms(topic, queue, offset)
    return found if found is not None else -1

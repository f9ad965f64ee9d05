"""Topics as the tools show them: bounds of queues, who consumes what (RocketMQ spec 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.protocol.registration import TopicConfig
    from penstock.rocketmq.remoting import Connection


def known_topic(controller: Controller, name: str) -> TopicConfig:
    """The configuration of a topic. Raises RefusedError when it does not exist."""
    config = controller.topics.get(name)
    if config is None:
        raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return config


def stored_ms(controller: Controller, topic: str, queue: int, offset: int) -> int:
    """The time when the message at a queue offset was stored; -1 when it is not there."""
    found = controller.store.stored_ms(topic, queue, offset)
    return found if found is not None else -1


@answers(RequestCode.GET_TOPIC_STATS_INFO)
def topic_stats(controller: Controller, connection: Connection, request: Command) -> Command:
    """The bounds of a topic's queues and when the newest message of each was stored."""
    topic = request.text("topic")
    table = {}
    for queue in range(known_topic(controller, topic).write_queues):
        low, high = controller.store.bounds(topic, queue)
        table[MessageQueue(controller.settings.broker_name, queue, topic)] = {
            "lastUpdateTimestamp": stored_ms(controller, topic, queue, high - 1) if high > 0 else 0,
            "maxOffset": high,
            "minOffset": low,
        }
    return json_answer(request, {"offsetTable": table})


@answers(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
def consumers_of_topic(controller: Controller, connection: Connection, request: Command) -> Command:
    """The groups that subscribe to a topic now, or have committed offsets in it."""
    topic = request.text("topic")
    groups = dict.fromkeys(
        (*controller.clients.subscribers(topic), *controller.offsets.groups_of(topic))
    )
    return json_answer(request, {"groupList": list(groups)})


@answers(RequestCode.QUERY_TOPICS_BY_CONSUMER)
def topics_of_consumer(controller: Controller, connection: Connection, request: Command) -> Command:
    """The topics in which a group has committed offsets."""
    topics = controller.offsets.topics_of(request.text("group"))
    return json_answer(request, {"brokerAddr": str(controller.address), "topicList": topics})


@answers(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
def subscription_of_consumer(
    controller: Controller, connection: Connection, request: Command
) -> Command:
    """The subscription of a group to a topic; without ``subscriptionData`` if it has none."""
    name, topic = request.text("group"), request.optional("topic")
    group = controller.clients.consumers.get(name)
    found = group.subscriptions.get(topic) if group is not None and topic else None
    return json_answer(request, {
        "group": name,
        "subscriptionData": found.as_json() if found is not None else None,
        "topic": topic,
    })  # fmt: skip

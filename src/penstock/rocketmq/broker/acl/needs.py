"""What a request needs: permissions for topics and groups, or an administrator.

A group stands as its retry topic, as in the rules. Requests that say nothing about topics or groups
need a valid signature only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.rocketmq.broker.acl.rules import Permission
from penstock.rocketmq.broker.clients import Heartbeat
from penstock.rocketmq.broker.names import RETRY_PREFIX, retry_topic
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.pop_info import BatchAck

Needs = list[tuple[str, Permission]]

ADMIN: Final = frozenset(
    (
        Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.DELETE_TOPIC_IN_BROKER, Code.UPDATE_BROKER_CONFIG,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.DELETE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_INFO, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    )
)  # fmt: skip
"""What administrators only may do; Java 4.9 forgot the last four, 5.x did not."""

_SENDS: Final[Mapping[int, str]] = {
    Code.SEND_MESSAGE: "topic",
    Code.SEND_MESSAGE_V2: "b",
    Code.SEND_BATCH_MESSAGE: "b",
    Code.SEND_REPLY_MESSAGE: "topic",
    Code.SEND_REPLY_MESSAGE_V2: "b",
}
"""The field that names the topic."""
_SUBSCRIBES: Final[Mapping[int, tuple[str, str]]] = {
    Code.PULL_MESSAGE: ("topic", "consumerGroup"),
    Code.LITE_PULL_MESSAGE: ("topic", "consumerGroup"),
    Code.QUERY_MESSAGE: ("topic", ""),
    Code.QUERY_CONSUMER_OFFSET: ("topic", "consumerGroup"),
    Code.UPDATE_CONSUMER_OFFSET: ("topic", "consumerGroup"),
    Code.CONSUMER_SEND_MSG_BACK: ("", "group"),
    Code.UNREGISTER_CLIENT: ("", "consumerGroup"),
    Code.GET_CONSUMER_LIST_BY_GROUP: ("", "consumerGroup"),
    Code.POP_MESSAGE: ("topic", "consumerGroup"),
    Code.PEEK_MESSAGE: ("topic", "consumerGroup"),
    Code.ACK_MESSAGE: ("topic", "consumerGroup"),
    Code.CHANGE_MESSAGE_INVISIBLETIME: ("topic", "consumerGroup"),
    Code.NOTIFICATION: ("topic", "consumerGroup"),
}
"""The fields that name the topic and the group, empty where there is none."""


def is_group(resource: str) -> bool:
    """Whether a resource stands for a group."""
    return resource.startswith(RETRY_PREFIX)


def of(request: Command) -> Needs:
    """What a request needs. Raises BodyError for a body that cannot be read."""
    if request.code == Code.HEART_BEAT:
        return _of_heartbeat(request)
    if request.code == Code.BATCH_ACK_MESSAGE:
        return _of_acknowledgements(request)
    field = _SENDS.get(request.code)
    if field is not None:
        topic = request.optional(field)
        if topic is None:
            return []
        return [(topic, Permission.SUB if is_group(topic) else Permission.PUB)]
    fields = _SUBSCRIBES.get(request.code)
    if fields is None:
        return []
    topic, group = (request.optional(name) if name else None for name in fields)
    needs: Needs = []
    if topic is not None:
        needs.append((topic, Permission.SUB))
    if group is not None:
        needs.append((retry_topic(group), Permission.SUB))
    return needs


def _of_heartbeat(request: Command) -> Needs:
    needs: Needs = []
    for consumer in Heartbeat.parse(request.body).consumers:
        needs.append((retry_topic(consumer.group), Permission.SUB))
        needs += [(each.topic, Permission.SUB) for each in consumer.subscriptions]
    return needs


def _of_acknowledgements(request: Command) -> Needs:
    needs: dict[str, Permission] = {}
    for each in BatchAck.parse_all(request.body):
        needs[each.topic] = needs[retry_topic(each.group)] = Permission.SUB
    return list(needs.items())

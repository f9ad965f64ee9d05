"""Permissions that each request needs under access rules: for topics and groups, or administrator.

``RULES`` has a rule for every code that a broker answers, and the documentation lists them. A code
without a rule is for administrators. A group is represented by its retry topic, as in an account's
rules. The needs are read from the same fields and bodies that the request's answerer reads. If a
request names a stored message by its position, they are read from that message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.acl.rules import Permission
from penstock.rocketmq.broker.clients import orderly
from penstock.rocketmq.broker.delays.release import real_topic
from penstock.rocketmq.broker.names import HALF_TOPIC, is_group, retry_topic
from penstock.rocketmq.broker.state.clients import Heartbeat
from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.pop_info import BatchAck

if TYPE_CHECKING:
    from penstock.rocketmq.protocol.command import Command

Needs = list[tuple[str, Permission]]
"""Pairs of a topic, or a group's retry topic, and a permission; of PUB|SUB one is enough."""
Reader = Callable[[MessageStore, "Command"], Needs]
PUB, SUB = Permission.PUB, Permission.SUB


@dataclass(frozen=True, slots=True)
class Rule:
    """The needs of a request, in words, and how to read them from it."""

    words: str
    read: Reader
    is_admins: bool = False


# --- readers --------------------------------------------------------------------------------------


def _none(store: MessageStore, request: Command) -> Needs:
    return []


def _stored(store: MessageStore, physical: int) -> Needs:
    """SUB of a stored message's topic; nothing if there is no message, as its answerer says so."""
    message = store.message(physical)
    return [] if message is None else [(real_topic(message), SUB)]


def _viewed(store: MessageStore, request: Command) -> Needs:
    return _stored(store, request.int64("offset"))


def _sent_back(store: MessageStore, request: Command) -> Needs:
    return [(retry_topic(request.text("group")), SUB), *_viewed(store, request)]


def _consumed_directly(store: MessageStore, request: Command) -> Needs:
    physical = OffsetId.parse(request.text("msgId")).offset
    return [(retry_topic(request.text("consumerGroup")), SUB), *_stored(store, physical)]


def _ended(store: MessageStore, request: Command) -> Needs:
    half = store.message(request.int64("commitLogOffset"))
    return [(real_topic(half), PUB)] if half is not None and half.topic == HALF_TOPIC else []


def _beaten(store: MessageStore, request: Command) -> Needs:
    needs: Needs = []
    for consumer in Heartbeat.parse(request.body).consumers:
        needs.append((retry_topic(consumer.group), SUB))
        needs += [(each.topic, SUB) for each in consumer.subscriptions]
    return needs


def _locked(store: MessageStore, request: Command) -> Needs:
    return [(retry_topic(orderly.asked(request.body).group), SUB)]


def _acknowledged(store: MessageStore, request: Command) -> Needs:
    needs: dict[str, Permission] = {}
    for each in BatchAck.parse_all(request.body):
        needs[each.topic] = needs[retry_topic(each.group)] = SUB
    return list(needs.items())


def _in_body(store: MessageStore, request: Command) -> Needs:
    value = fastjson.loads(request.body)
    value = value if isinstance(value, dict) else {}
    topic, group = value.get("topic"), value.get("consumerGroup")
    if not isinstance(topic, str) or not isinstance(group, str):
        return []  # its answerer refuses such a body
    return [(topic, SUB), (retry_topic(group), SUB)]


# --- rules ----------------------------------------------------------------------------------------


def _send(field: str) -> Rule:
    def read(store: MessageStore, request: Command) -> Needs:
        topic = request.optional(field)
        if topic is None:
            return []
        return [(topic, SUB if is_group(topic) else PUB)]

    return Rule(f"PUB of topic `{field}`; where that is a retry topic, SUB of its group", read)


def _subscribe(topic_field: str, *group_fields: str) -> Rule:
    """SUB of the topic and the groups that these fields name; nothing if there is no topic."""

    def read(store: MessageStore, request: Command) -> Needs:
        topic = request.optional(topic_field)
        needs: Needs = [(topic, SUB)] if topic is not None else []
        for field in group_fields:
            group = request.optional(field)
            needs += [(retry_topic(group), SUB)] if group is not None else []
        return needs

    words = [f"topic `{topic_field}`"] if topic_field else []
    words += [f"group `{field}`" for field in group_fields]
    return Rule(f"SUB of {' and '.join(words)}", read)


def _know(field: str) -> Rule:
    def read(store: MessageStore, request: Command) -> Needs:
        topic = request.optional(field)
        return [(topic, PUB | SUB)] if topic is not None else []

    return Rule(f"PUB or SUB of topic `{field}`", read)


ADMIN: Final = Rule("an administrator", _none, is_admins=True)
SIGNED: Final = Rule("a valid signature", _none)
_PULL: Final = _subscribe("topic", "consumerGroup")
_SHORT_SEND: Final = _send("b")
_LOCK: Final = Rule("SUB of group `consumerGroup` of the body", _locked)
_BODY: Final = Rule("SUB of topic `topic` and group `consumerGroup` of the body", _in_body)

RULES: Final[Mapping[int, Rule]] = {
    # Sending
    Code.SEND_MESSAGE: _send("topic"),
    Code.SEND_MESSAGE_V2: _SHORT_SEND,
    Code.SEND_BATCH_MESSAGE: _SHORT_SEND,
    Code.SEND_REPLY_MESSAGE: _send("topic"),
    Code.SEND_REPLY_MESSAGE_V2: _SHORT_SEND,
    Code.RECALL_MESSAGE: _send("topic"),
    Code.END_TRANSACTION: Rule("PUB of the topic that the half message is for", _ended),
    # Consuming
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.QUERY_CONSUMER_OFFSET: _PULL,
    Code.UPDATE_CONSUMER_OFFSET: _PULL,
    Code.POP_MESSAGE: _PULL,
    Code.PEEK_MESSAGE: _PULL,
    Code.ACK_MESSAGE: _PULL,
    Code.BATCH_ACK_MESSAGE: Rule("SUB of each topic and group of the body", _acknowledged),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _PULL,
    Code.NOTIFICATION: _PULL,
    Code.POLLING_INFO: _PULL,
    Code.QUERY_ASSIGNMENT: _BODY,
    Code.CONSUMER_SEND_MSG_BACK: Rule(
        "SUB of group `group` and of the stored message's topic", _sent_back
    ),
    Code.HEART_BEAT: Rule("SUB of each consumer group and its topics of the body", _beaten),
    Code.UNREGISTER_CLIENT: _subscribe("", "consumerGroup"),
    Code.GET_CONSUMER_LIST_BY_GROUP: _subscribe("", "consumerGroup"),
    Code.CHECK_CLIENT_CONFIG: SIGNED,
    Code.LOCK_BATCH_MQ: _LOCK,
    Code.UNLOCK_BATCH_MQ: _LOCK,
    # Messages and offsets of a topic
    Code.QUERY_MESSAGE: _subscribe("topic"),
    Code.VIEW_MESSAGE_BY_ID: Rule("SUB of the stored message's topic", _viewed),
    Code.QUERY_CONSUME_QUEUE: _subscribe("topic", "consumerGroup"),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _know("topic"),
    Code.GET_MAX_OFFSET: _know("topic"),
    Code.GET_MIN_OFFSET: _know("topic"),
    Code.GET_EARLIEST_MSG_STORETIME: _know("topic"),
    Code.GET_TOPIC_STATS_INFO: _know("topic"),
    Code.GET_TOPIC_CONFIG: _know("topic"),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _know("topic"),
    # A group, asked about and changed
    Code.GET_CONSUMER_CONNECTION_LIST: _subscribe("", "consumerGroup"),
    Code.GET_CONSUMER_RUNNING_INFO: _subscribe("", "consumerGroup"),
    Code.GET_CONSUME_STATS: _subscribe("topic", "consumerGroup"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _subscribe("", "group"),
    Code.QUERY_TOPICS_BY_CONSUMER: _subscribe("", "group"),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _subscribe("topic", "group"),
    Code.QUERY_CONSUME_TIME_SPAN: _subscribe("topic", "group"),
    Code.QUERY_CORRECTION_OFFSET: _subscribe("topic", "compareGroup"),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _subscribe("topic", "group"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _subscribe("topic", "group"),
    Code.CLONE_GROUP_OFFSET: _subscribe("topic", "srcGroup", "destGroup"),
    Code.SET_MESSAGE_REQUEST_MODE: _BODY,
    Code.CONSUME_MESSAGE_DIRECTLY: Rule(
        "SUB of group `consumerGroup` and of the stored message's topic", _consumed_directly
    ),
    # Figures of the broker, which show no message and no name of an account
    Code.GET_BROKER_RUNTIME_INFO: SIGNED,
    Code.VIEW_BROKER_STATS_DATA: SIGNED,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: SIGNED,
    # Requests that concern all topics, groups or clients, or change the broker
    Code.UPDATE_AND_CREATE_TOPIC: ADMIN,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: ADMIN,
    Code.GET_ALL_TOPIC_CONFIG: ADMIN,
    Code.DELETE_TOPIC_IN_BROKER: ADMIN,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ADMIN,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: ADMIN,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ADMIN,
    Code.DELETE_SUBSCRIPTIONGROUP: ADMIN,
    Code.GET_ALL_CONSUMER_OFFSET: ADMIN,
    Code.GET_ALL_DELAY_OFFSET: ADMIN,
    Code.GET_BROKER_CONSUME_STATS: ADMIN,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: ADMIN,
    Code.GET_PRODUCER_CONNECTION_LIST: ADMIN,
    Code.GET_ALL_PRODUCER_INFO: ADMIN,
    Code.RESUME_CHECK_HALF_MESSAGE: ADMIN,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: ADMIN,
    Code.CLEAN_UNUSED_TOPIC: ADMIN,
    Code.DELETE_EXPIRED_COMMITLOG: ADMIN,
    Code.UPDATE_BROKER_CONFIG: ADMIN,
    Code.GET_BROKER_CONFIG: ADMIN,
    Code.UPDATE_AND_CREATE_ACL_CONFIG: ADMIN,
    Code.DELETE_ACL_CONFIG: ADMIN,
    Code.GET_BROKER_CLUSTER_ACL_INFO: ADMIN,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: ADMIN,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ADMIN,
}


def of(code: int) -> Rule:
    """The rule of a request code; a code without a rule is for administrators."""
    return RULES.get(code, ADMIN)

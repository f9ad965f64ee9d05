"""Pulling: messages of a queue from an offset on, or the reason why there are none (reference
2.2, 4.3).

A pull that finds nothing new may be held until a message comes; see ``broker.held_pulls``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.rocketmq.broker import group_topics, names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.sql92 import ExpressionError
from penstock.rocketmq.broker.subscriptions import SQL92, Subscription
from penstock.rocketmq.broker.topics import READ
from penstock.rocketmq.protocol.answer_template import AnswerTemplate
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message import properties_text
from penstock.storage.batch import Buffer

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.remoting import Connection

COMMIT_OFFSET: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4

SCAN_MAX: Final = 800
"""Messages that one request looks at when few or none of them are wanted."""
_MASTER: Final = "0"


class PullHeader(Struct, frozen=True, gc=False):
    """The fields of a pull."""

    group: str
    topic: str
    queue: int
    offset: int
    messages_max: int
    sys_flag: int
    commit_offset: int
    suspend_ms: int
    subscription: str
    kind: str | None
    version: int
    nbytes: int | None

    @classmethod
    def of(cls, request: Command) -> PullHeader:
        """Raises BodyError for a field that is missing or no number."""
        ext = request.ext
        if ext is None:
            raise BodyError("a pull without fields")
        get = ext.get
        try:
            return cls(
                ext["consumerGroup"],
                ext["topic"],
                int(ext["queueId"]),
                int(ext["queueOffset"]),
                int(ext["maxMsgNums"]),
                int(ext["sysFlag"]),
                int(get("commitOffset") or 0),
                int(get("suspendTimeoutMillis") or 0),
                get("subscription") or "",
                get("expressionType") or None,
                int(get("subVersion") or 0),
                int(get("maxMsgBytes") or 0) or None,
            )
        except KeyError as error:
            raise BodyError(f"the field {error.args[0]} is missing") from None
        except ValueError as error:
            raise BodyError(f"a field of the pull is no number: {error}") from None


class Pulled(Struct, frozen=True, gc=False):
    """What a pull found: the answer's code and words, offsets, messages back to back."""

    code: ResponseCode
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    pieces: tuple[Buffer, ...] | list[Buffer] = ()
    messages: int = 0
    nbytes: int = 0


@answers(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
def pull(node: Node, connection: Connection, request: Command) -> Command | None:
    header = PullHeader.of(request)
    subscription = checked_subscription(node, connection, header)
    pulled = find(node, header, subscription)
    if header.sys_flag & COMMIT_OFFSET and header.commit_offset >= 0:
        node.offsets.commit(header.topic, header.group, header.queue, header.commit_offset)
    waits = pulled.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND
    if waits and node.held_pulls.hold(connection, request, header, subscription, pulled):
        return None
    respond(node, connection, request, header, pulled)
    return None


def checked_subscription(node: Node, connection: Connection, header: PullHeader) -> Subscription:
    """What the pull wants of the topic. Raises RefusedError when it may not have it."""
    permissions.need_broker(node, READ)
    group = node.groups.get(header.group) or group_topics.need_group(node, header.group)
    if not group.consume_enable:
        remark = f"subscription group no permission, {header.group}"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    config = permissions.known_topic(node, header.topic)
    permissions.need_topic(config, READ)
    if not 0 <= header.queue < config.read_queues:
        remark = (
            f"queueId[{header.queue}] is illegal, topic:[{header.topic}] topicConfig.readQueueNums:"
            f"[{config.read_queues}] consumer:[{connection.address}]"
        )
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    if header.sys_flag & SUBSCRIPTION:
        subscription = _own_subscription(header)
    else:
        subscription = _known_subscription(node, header, group.consume_broadcast_enable)
    if subscription.kind == SQL92 and not node.settings.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {subscription.kind}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    is_retry = subscription.kind == SQL92 and header.topic.startswith(names.RETRY_PREFIX)
    if is_retry and not node.settings.filter_support_retry:
        return Subscription(header.topic)
    return subscription


def _own_subscription(header: PullHeader) -> Subscription:
    try:
        return Subscription.parse(header.topic, header.subscription, header.kind, header.version)
    except (BodyError, ExpressionError):
        remark = "parse the consumer's subscription failed"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None


def _known_subscription(node: Node, header: PullHeader, may_broadcast: bool) -> Subscription:
    """What the group's heartbeats say of the topic."""
    group = node.clients.consumers.get(header.group)
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
    if subscription.version < header.version:
        remark = "the consumer's subscription not latest"
        raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    if subscription.problem is not None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise RefusedError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    return subscription


def find(node: Node, header: PullHeader, subscription: Subscription) -> Pulled:
    """What the queue has for this pull. Raises StorageError."""
    low, high = bounds = node.store.bounds(header.topic, header.queue)
    if not low <= header.offset < high:
        return _nothing(header.offset, low, high)
    settings = node.settings
    count = max(1, min(header.messages_max, settings.max_transfer_count_on_message_in_memory))
    room = settings.max_transfer_bytes_on_message_in_memory
    if header.nbytes:
        room = min(room, header.nbytes)
    began_ns = node.stats.get_begins()
    if subscription.wants_all:
        pulled = _all(node, header, bounds, count, room)
    else:
        pulled = _matching(node, header, subscription, bounds, count, room)
    if began_ns and pulled.messages:
        node.stats.get_ends(header.topic, header.group, began_ns)
    return pulled


def _nothing(offset: int, low: int, high: int) -> Pulled:
    """The answer to a pull from where there is no message."""
    if high == 0:
        code = ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
        return Pulled(code, "NO_MESSAGE_IN_QUEUE", 0, 0, 0)
    if offset < low:
        return Pulled(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", low, low, high)
    if offset == high:
        return Pulled(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, low, high)
    return Pulled(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", high, low, high)


def _all(node: Node, header: PullHeader, bounds: tuple[int, int], count: int, room: int) -> Pulled:
    """The messages as they come, whole slices where they fit."""
    store, topic = node.store, header.topic
    pieces: list[Buffer] = []
    nbytes, next_offset = 0, header.offset
    found = 0
    for part in store.slices(topic, header.queue, header.offset, count):
        piece, messages = store.piece(topic, part), part.next - part.first
        nbytes += len(piece)
        if nbytes <= room:
            pieces.append(piece)
            found += messages
            next_offset = part.queue_offset + messages
            continue
        nbytes -= len(piece)
        for number, frame in enumerate(store.frames(topic, part)):
            if pieces and nbytes + len(frame) > room:
                break
            pieces.append(frame)
            nbytes += len(frame)
            found += 1
            next_offset = part.queue_offset + number + 1
        break
    if not found:  # damaged, or let go while we looked
        next_offset = min(header.offset + count, bounds[1])
        return Pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING", next_offset,
                      *bounds)  # fmt: skip
    return Pulled(ResponseCode.SUCCESS, "FOUND", next_offset, *bounds, pieces, found, nbytes)


def _matching(
    node: Node,
    header: PullHeader,
    subscription: Subscription,
    bounds: tuple[int, int],
    count: int,
    room: int,
) -> Pulled:
    """The messages that the subscription wants, among the next ``SCAN_MAX``."""
    store, topic = node.store, header.topic
    pieces: list[Buffer] = []
    nbytes = 0
    next_offset = min(header.offset + SCAN_MAX, bounds[1])
    for part in store.slices(topic, header.queue, header.offset, SCAN_MAX):
        for number, frame in enumerate(store.frames(topic, part)):
            if not subscription.matches(properties_text(frame)):
                continue
            if pieces and (len(pieces) >= count or nbytes + len(frame) > room):
                next_offset = part.queue_offset + number
                return Pulled(ResponseCode.SUCCESS, "FOUND", next_offset, *bounds, pieces,
                              len(pieces), nbytes)  # fmt: skip
            pieces.append(frame)
            nbytes += len(frame)
    if not pieces:
        return Pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", next_offset,
                      *bounds)  # fmt: skip
    return Pulled(ResponseCode.SUCCESS, "FOUND", next_offset, *bounds, pieces, len(pieces),
                  nbytes)  # fmt: skip


def respond(
    node: Node, connection: Connection, request: Command, header: PullHeader, pulled: Pulled
) -> None:
    """Send what was found.

    It is copied together: a slice would keep the block alive that it is of until it has left, and
    a write of many small slices costs more than that.
    """
    if request.is_one_way:
        return
    if pulled.messages:
        node.stats.got(header.topic, header.group, pulled.messages, pulled.nbytes)
    else:
        node.stats.missed()
    values = (str(pulled.next_offset), str(pulled.min_offset), str(pulled.max_offset))
    head = _template(pulled.code, pulled.remark).encode(request, values, pulled.nbytes)
    connection.send_large((b"".join((head, *pulled.pieces)),), pulled.nbytes)


@lru_cache(maxsize=64)
def _template(code: ResponseCode, remark: str) -> AnswerTemplate:
    names = ("nextBeginOffset", "minOffset", "maxOffset")
    return AnswerTemplate(names, {"suggestWhichBrokerId": _MASTER}, code, remark)

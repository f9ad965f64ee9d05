"""Popping: messages of a topic that are hidden from others until they are acknowledged, or until
their time is over (RocketMQ spec 2.7).

A request without messages to have waits for them. Popping in order is in ``ordered_pops``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.clients import group_topics
from penstock.rocketmq.broker.pop.ordered_pops import OrderedRequest
from penstock.rocketmq.broker.pop.pop_channel import ANSWER_BYTES_MAX, PopChannel, Popped
from penstock.rocketmq.broker.state.sql92 import ExpressionError
from penstock.rocketmq.broker.state.subscriptions import SQL92, Subscription
from penstock.rocketmq.broker.state.topics import READ
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.pop_info import message_offset_info, start_offset_info

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

MESSAGES_MAX: Final = 32
INVISIBLE_MS_MAX: Final = 12 * HOUR // MILLISECOND
POLL_MS_MAX: Final = 300 * SECOND // MILLISECOND
WAITING_OF_GROUP_MAX: Final = 1024
WAITING_MAX: Final = 100_000
_FROM_END: Final = 1
_REVIVE_QUEUE: Final = 0
"""Java's brokers keep popped messages in one of several queues; there is no such thing here."""


@answers(RequestCode.POP_MESSAGE)
def pop(controller: Controller, connection: Connection, request: Command) -> None:
    """Answered as soon as there is something, or when the time to wait is over."""
    topic, group = checked(controller, connection, request)
    count = _within(request, "maxMsgNums", 1, MESSAGES_MAX)
    invisible_ms = _within(request, "invisibleTime", 1, INVISIBLE_MS_MAX)
    poll_ms = min(max(0, request.int64("pollTime")), POLL_MS_MAX)
    subscription = _subscription(controller, request, topic)
    from_end = request.int32("initMode", 0) == _FROM_END
    if request.boolean("order"):
        found = OrderedRequest(
            connection, request, (topic, group), count, invisible_ms, subscription
        )
        _pop_in_order(controller, found, poll_ms, from_end=from_end)
        return
    channel = controller.pops.channel(topic, group, from_end=from_end)
    waiting = PopRequest(
        controller, connection, request, channel, count, invisible_ms, subscription
    )
    if channel.waiting >= WAITING_OF_GROUP_MAX or len(controller.pops) >= WAITING_MAX:
        waiting.refuse(ResponseCode.POLLING_FULL)
    elif channel.wait(waiting, invisible_ms):
        waiting.expire_after(poll_ms)
    else:
        remark = f"the group {group} uses too many different invisible times at once"
        raise RefusedError(ResponseCode.SYSTEM_BUSY, remark)


def _pop_in_order(
    controller: Controller, request: OrderedRequest, poll_ms: int, *, from_end: bool
) -> None:
    ordered = controller.pops.ordered
    queues = controller.pops.in_order(*request.key, from_end=from_end)
    if ordered.pop(request, queues):
        return
    if ordered.waiting(request.key) >= WAITING_OF_GROUP_MAX or len(controller.pops) >= WAITING_MAX:
        ordered.refuse(request, ResponseCode.POLLING_FULL)
    else:
        ordered.wait(request, poll_ms)


class PopRequest:
    """A request to pop that was not answered yet."""

    def __init__(
        self,
        controller: Controller,
        connection: Connection,
        request: Command,
        channel: PopChannel,
        count: int,
        invisible_ms: int,
        subscription: Subscription,
    ) -> None:
        self.connection = connection
        self.count = count
        self.subscription = subscription
        self._controller = controller
        self._request = request
        self._channel = channel
        self._invisible_ms = invisible_ms
        self._timer: asyncio.Handle | None = None

    def expire_after(self, ms: int) -> None:
        """Answer after this time at the latest; with 0 at once, with the messages there are."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(ms / 1000, self.expire) if ms else loop.call_soon(self.expire)

    def expire(self) -> None:
        """Answer that nothing came in time, or that the channel is gone."""
        self.cancel()
        self._channel.give_up(self)
        self.refuse(ResponseCode.POLLING_TIMEOUT)

    def cancel(self) -> None:
        """Nobody wants an answer any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_again(self) -> None:
        """Stop waiting and process the request again: permissions have changed."""
        self.cancel()
        self._channel.give_up(self)
        self.connection.take_again(self._request)

    def refuse(self, code: ResponseCode) -> None:
        self._controller.stats.missed()
        self.connection.send(
            self._request.answer(code, "NO_MESSAGE_IN_QUEUE", ext=self._fields([]))
        )

    def answer(self, popped: list[Popped]) -> None:
        self.cancel()
        pieces = [each.frame for each in popped]
        nbytes = sum(map(len, pieces))
        topic = self._channel.topic.name
        self._controller.stats.got(topic, self._channel.channel.name, len(popped), nbytes)
        answer = self._request.answer(0, "FOUND", ext=self._fields(popped))
        self.connection.send_large((frames.encode_head(answer, nbytes), *pieces), nbytes)

    def _fields(self, popped: list[Popped]) -> dict[str, str]:
        return {
            "popTime": str(self._controller.now_ms),
            "invisibleTime": str(self._invisible_ms),
            "reviveQid": str(_REVIVE_QUEUE),
            "restNum": str(self._channel.channel.state.depth),
            **_places(popped),
        }


@answers(RequestCode.PEEK_MESSAGE)
def peek(controller: Controller, connection: Connection, request: Command) -> Command | None:
    """The messages that a group would pop next; nothing is hidden by it."""
    topic, group = checked(controller, connection, request)
    count = _within(request, "maxMsgNums", 1, MESSAGES_MAX)
    found, rest = controller.pops.peek(topic, group, count)
    popped = _fitting(found)
    rest += len(found) - len(popped)
    fields = {
        "popTime": str(controller.now_ms),
        "invisibleTime": "0",
        "reviveQid": str(_REVIVE_QUEUE),
        "restNum": str(rest),
        **_places(popped),
    }
    if not popped:
        return request.answer(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext=fields)
    body = b"".join(each.frame for each in popped)
    return request.answer(0, "FOUND", ext=fields, body=body)


def _fitting(popped: list[Popped]) -> list[Popped]:
    """The first ones that fit into an answer, one at least."""
    nbytes = 0
    for number, each in enumerate(popped):
        nbytes += len(each.frame)
        if number and nbytes > ANSWER_BYTES_MAX:
            return popped[:number]
    return popped


@answers(RequestCode.POLLING_INFO)
def polling_info(controller: Controller, connection: Connection, request: Command) -> Command:
    topic, group = checked(controller, connection, request)
    channel = controller.pops.find(topic, group)
    waiting = controller.pops.ordered.waiting((topic, group))
    waiting += channel.waiting if channel is not None else 0
    return request.answer(ext={"pollingNum": str(waiting)})


def checked(controller: Controller, connection: Connection, request: Command) -> tuple[str, str]:
    """Topic and group of a request, which may read the one as the other. Raises RefusedError."""
    topic, group = request.text("topic"), request.text("consumerGroup")
    if not controller.settings.broker_permission & READ:
        remark = f"the broker[{controller.settings.broker_ip1}] pop message is forbidden"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    config = permissions.known_topic(controller, topic)
    if not config.perm & READ:
        remark = f"the topic[{topic}] peeking message is forbidden"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    queue = request.int32("queueId")
    if queue >= config.read_queues:
        remark = (
            f"queueId[{queue}] is illegal, topic:[{topic}] "
            f"topicConfig.readQueueNums:[{config.read_queues}] consumer:[{connection.address}]"
        )
        raise RefusedError(ResponseCode.INVALID_PARAMETER, remark)
    if not group_topics.need_group(controller, group).consume_enable:
        remark = f"subscription group no permission, {group}"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    return topic, group


def _within(request: Command, name: str, least: int, most: int) -> int:
    value = request.int64(name)
    if not least <= value <= most:
        remark = f"the field {name} is {value}, where {least} to {most} are allowed"
        raise RefusedError(ResponseCode.INVALID_PARAMETER, remark)
    return value


def _subscription(controller: Controller, request: Command, topic: str) -> Subscription:
    try:
        found = Subscription.parse(topic, request.optional("exp"), request.optional("expType"))
    except (BodyError, ExpressionError):
        remark = "parse the consumer's subscription failed"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
    if found.kind == SQL92 and not controller.settings.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {found.kind}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    return found


def _places(popped: list[Popped]) -> dict[str, str]:
    """The places of the messages, for clients to make their receipts of."""
    by_queue: dict[int, list[int]] = {}
    for each in popped:
        by_queue.setdefault(each.queue, []).append(each.queue_offset)
    for offsets in by_queue.values():
        offsets.sort()
    return {
        "startOffsetInfo": start_offset_info(by_queue),
        "msgOffsetInfo": message_offset_info(by_queue),
    }

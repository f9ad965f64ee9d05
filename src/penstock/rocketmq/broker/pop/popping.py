"""Popping: messages of a topic that are hidden from others until they are acknowledged, or until
their time is over (RocketMQ spec 2.7).

A request without messages to have waits for them. Popping in order is in ``ordered_pops``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.pop.ordered_pops import OrderedRequest
from penstock.rocketmq.broker.pop.pop_channel import ANSWER_BYTES_MAX, PopChannel, Popped
from penstock.rocketmq.broker.state.sql92 import ExpressionError
from penstock.rocketmq.broker.state.subscriptions import SQL92, Subscription
from penstock.rocketmq.broker.state.topic_table import READ
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.pop_info import message_offset_info, start_offset_info

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.pop.pops import Pops
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

# Java's own limit (RocketMQ spec 2.7).
MESSAGES_MAX: Final = 32
INVISIBLE_MS_MAX: Final = 12 * HOUR // MILLISECOND
POLL_MS_MAX: Final = 300 * SECOND // MILLISECOND
WAITING_OF_GROUP_MAX: Final = 1024
WAITING_MAX: Final = 100_000
# INIT_MODE of RocketMQ spec 2.7: 0 is the queue's minimum, 1 its maximum.
_FROM_END: Final = 1
_REVIVE_QUEUE: Final = 0
"""Java's brokers keep popped messages in one of several queues; there is no such thing here."""


class PopRequest:
    """A request to pop that was not answered yet."""

    def __init__(
        self,
        stats: Stats,
        clock: Clock,
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
        self._stats = stats
        self._clock = clock
        self._request = request
        self._channel = channel
        self._invisible_ms = invisible_ms
        self._timer: asyncio.Handle | None = None

    def expire_after(self, ms: int) -> None:
        """Answer after this time at the latest; with 0 at once, with the messages there are."""
        loop = asyncio.get_running_loop()
        # Not at once even with 0: what the channel has is handed out by a call that was scheduled
        # before this one.
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
        self._stats.missed()
        self.connection.send(
            self._request.answer(code, "NO_MESSAGE_IN_QUEUE", ext=self._fields([]))
        )

    def answer(self, popped: list[Popped]) -> None:
        self.cancel()
        pieces = [each.frame for each in popped]
        nbytes = sum(map(len, pieces))
        topic = self._channel.topic.name
        self._stats.got(topic, self._channel.channel.name, len(popped), nbytes)
        answer = self._request.answer(0, "FOUND", ext=self._fields(popped))
        self.connection.send_large((frames.encode_head(answer, nbytes), *pieces), nbytes)

    def _fields(self, popped: list[Popped]) -> dict[str, str]:
        return {
            "popTime": str(wall_ms(self._clock)),
            "invisibleTime": str(self._invisible_ms),
            "reviveQid": str(_REVIVE_QUEUE),
            "restNum": str(self._channel.channel.state.depth),
            **_places(popped),
        }


@dataclass(slots=True, eq=False)
class Popping:
    """Answers to groups that pop."""

    settings: BrokerSettings
    topics: TopicTable
    stats: Stats
    group_topics: GroupTopics
    pops: Pops
    clock: Clock

    @answers(RequestCode.POP_MESSAGE)
    def pop(self, connection: Connection, request: Command) -> None:
        """Answered as soon as there is something, or when the time to wait is over."""
        topic, group = self.checked(connection, request)
        count = _within(request, "maxMsgNums", 1, MESSAGES_MAX)
        invisible_ms = _within(request, "invisibleTime", 1, INVISIBLE_MS_MAX)
        poll_ms = min(max(0, request.int64("pollTime")), POLL_MS_MAX)
        subscription = self._subscription(request, topic)
        from_end = request.int32("initMode", 0) == _FROM_END
        if request.boolean("order"):
            found = OrderedRequest(
                connection, request, (topic, group), count, invisible_ms, subscription
            )
            self._pop_in_order(found, poll_ms, from_end=from_end)
            return
        channel = self.pops.channel(topic, group, from_end=from_end)
        waiting = PopRequest(
            self.stats, self.clock, connection, request, channel, count, invisible_ms, subscription
        )
        if channel.waiting >= WAITING_OF_GROUP_MAX or len(self.pops) >= WAITING_MAX:
            waiting.refuse(ResponseCode.POLLING_FULL)
        elif channel.wait(waiting, invisible_ms):
            waiting.expire_after(poll_ms)
        else:
            remark = f"the group {group} uses too many different invisible times at once"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, remark)

    def _pop_in_order(self, request: OrderedRequest, poll_ms: int, *, from_end: bool) -> None:
        ordered = self.pops.ordered
        queues = self.pops.in_order(*request.key, from_end=from_end)
        if ordered.pop(request, queues):
            return
        if ordered.waiting(request.key) >= WAITING_OF_GROUP_MAX or len(self.pops) >= WAITING_MAX:
            ordered.refuse(request, ResponseCode.POLLING_FULL)
        else:
            ordered.wait(request, poll_ms)

    @answers(RequestCode.PEEK_MESSAGE)
    def peek(self, connection: Connection, request: Command) -> Command | None:
        """The messages that a group would pop next; nothing is hidden by it."""
        topic, group = self.checked(connection, request)
        count = _within(request, "maxMsgNums", 1, MESSAGES_MAX)
        found, rest = self.pops.peek(topic, group, count)
        popped = _fitting(found)
        rest += len(found) - len(popped)
        fields = {
            "popTime": str(wall_ms(self.clock)),
            "invisibleTime": "0",
            "reviveQid": str(_REVIVE_QUEUE),
            "restNum": str(rest),
            **_places(popped),
        }
        if not popped:
            return request.answer(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext=fields)
        body = b"".join(each.frame for each in popped)
        return request.answer(0, "FOUND", ext=fields, body=body)

    @answers(RequestCode.POLLING_INFO)
    def polling_info(self, connection: Connection, request: Command) -> Command:
        topic, group = self.checked(connection, request)
        channel = self.pops.find(topic, group)
        waiting = self.pops.ordered.waiting((topic, group))
        waiting += channel.waiting if channel is not None else 0
        return request.answer(ext={"pollingNum": str(waiting)})

    def checked(self, connection: Connection, request: Command) -> tuple[str, str]:
        """A request's topic and group, which may read that topic. Raises RefusedError."""
        topic, group = request.text("topic"), request.text("consumerGroup")
        if not self.settings.broker_permission & READ:
            remark = f"the broker[{self.settings.broker_ip1}] pop message is forbidden"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        config = permissions.known_topic(self.topics, topic)
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
        if not self.group_topics.need(group).consume_enable:
            remark = f"subscription group no permission, {group}"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        return topic, group

    def _subscription(self, request: Command, topic: str) -> Subscription:
        try:
            found = Subscription.parse(topic, request.optional("exp"), request.optional("expType"))
        except (BodyError, ExpressionError):
            remark = "parse the consumer's subscription failed"
            raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        if found.kind == SQL92 and not self.settings.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {found.kind}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        return found


def _fitting(popped: list[Popped]) -> list[Popped]:
    """The first ones that fit into an answer, one at least."""
    nbytes = 0
    for number, each in enumerate(popped):
        nbytes += len(each.frame)
        if number and nbytes > ANSWER_BYTES_MAX:
            return popped[:number]
    return popped


def _within(request: Command, name: str, least: int, most: int) -> int:
    value = request.int64(name)
    if not least <= value <= most:
        remark = f"the field {name} is {value}, where {least} to {most} are allowed"
        raise RefusedError(ResponseCode.INVALID_PARAMETER, remark)
    return value


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

"""Outcomes of popped messages: they are done, or hidden for another time (RocketMQ spec 2.7).

A receipt is good until the invisible time it speaks of is over; then the message may be somebody
else's. As with Java's brokers, one that is too late is answered like any other. One of a batch that
was popped in order is good until the batch is popped again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.clock import wall_ms
from penstock.rocketmq.broker import permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.pop.popping import INVISIBLE_MS_MAX
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.pop_info import BatchAck, Receipt

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.pop.pops import Pops
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection


@dataclass(slots=True, eq=False)
class PopAcks:
    """Answers about messages that were popped."""

    topics: TopicTable
    store: MessageStore
    pops: Pops
    clock: Clock

    @answers(RequestCode.ACK_MESSAGE)
    def ack(self, connection: Connection, request: Command) -> Command:
        """One message is done."""
        topic, queue, offset = self._place(connection, request)
        low, high = self.store.bounds(topic, queue)
        # The end itself passes, as in Java's AckMessageProcessor.
        if not low <= offset <= high:
            remark = f"offset is illegal, key:{topic}@{queue}, commit:{offset}, store:{low}~{high}"
            raise RefusedError(ResponseCode.NO_MESSAGE, remark)
        receipt = Receipt.parse(request.text("extraInfo"))
        strangers = self._finish(topic, request.text("consumerGroup"), queue, [offset], receipt)
        _refuse_strangers(topic, queue, strangers)
        return request.answer()

    @answers(RequestCode.BATCH_ACK_MESSAGE)
    def batch_ack(self, connection: Connection, request: Command) -> Command:
        """Several messages are done, of several queues or topics."""
        acks = BatchAck.parse_all(request.body)
        if not acks:
            raise RefusedError(ResponseCode.NO_MESSAGE, "a request that acknowledges nothing")
        wrong: list[tuple[BatchAck, list[int]]] = []
        for each in acks:
            low, high = self.store.bounds(each.topic, each.queue)
            # Outside the queue they are passed over: one bad bit must not fail the batch's other
            # messages.
            offsets = [offset for offset in each.offsets if low <= offset < high]
            strangers = self._finish(each.topic, each.group, each.queue, offsets, each.receipt)
            wrong.append((each, strangers))
        for each, strangers in wrong:  # the others are done
            _refuse_strangers(each.topic, each.queue, strangers)
        return request.answer()

    @answers(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    def change_invisible_time(self, connection: Connection, request: Command) -> Command:
        """Let a message come again after another time than was said."""
        topic, queue, offset = self._place(connection, request)
        receipt = Receipt.parse(request.text("extraInfo"))
        invisible_ms = min(max(0, request.int64("invisibleTime")), INVISIBLE_MS_MAX)
        low, high = self.store.bounds(topic, queue)
        if not low <= offset < high:
            raise RefusedError(ResponseCode.NO_MESSAGE, f"no message {offset} in {topic}@{queue}")
        if receipt.is_in_order:
            return self._change_in_order(request, topic, queue, offset, invisible_ms, receipt)
        channel = self.pops.find(topic, request.text("consumerGroup"))
        if channel is not None and not self._is_late(receipt):
            # No place if the message is damaged or gone: then there is nothing to hide.
            for place in channel.topic.queues.locate(queue, offset, 1):
                channel.hide(place, invisible_ms)
        return request.answer(
            ext={
                "popTime": str(wall_ms(self.clock)),
                "invisibleTime": str(invisible_ms),
                "reviveQid": str(receipt.revive_queue),
            }
        )

    def _change_in_order(
        self,
        request: Command,
        topic: str,
        queue: int,
        offset: int,
        invisible_ms: int,
        receipt: Receipt,
    ) -> Command:
        """The batch stays what it was when it was popped, so its receipts stay good."""
        visible_ms = wall_ms(self.clock) + invisible_ms
        key = (topic, request.text("consumerGroup"))
        self.pops.ordered.hide(key, queue, offset, receipt.pop_ms, visible_ms)
        return request.answer(
            ext={
                "popTime": str(receipt.pop_ms),
                "invisibleTime": str(visible_ms - receipt.pop_ms),
                "reviveQid": str(receipt.revive_queue),
            }
        )

    def _place(self, connection: Connection, request: Command) -> tuple[str, int, int]:
        """Topic, queue and queue offset of the message that a request is about. A topic that has
        fewer queues now has messages in the others yet, and groups pop those, too.
        """
        topic, queue = request.text("topic"), request.int32("queueId")
        config = permissions.known_topic(self.topics, topic)
        has_had_messages = self.store.bounds(topic, queue)[1] > 0
        if queue < 0 or (queue >= config.read_queues and not has_had_messages):
            remark = (
                f"queueId[{queue}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}] consumer:[{connection.address}]"
            )
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        return topic, queue, request.int64("offset")

    def _finish(
        self, topic: str, group: str, queue: int, offsets: list[int], receipt: Receipt
    ) -> list[int]:
        """Take note; offsets that the receipt cannot be for are returned."""
        if receipt.is_in_order:
            return self.pops.ordered.finish((topic, group), queue, offsets, receipt.pop_ms)
        channel = self.pops.find(topic, group)
        if channel is None or self._is_late(receipt):
            return []
        locate = channel.topic.queues.locate
        channel.finish([place for offset in offsets for place in locate(queue, offset, 1)])
        return []

    def _is_late(self, receipt: Receipt) -> bool:
        # From then on the message may be somebody else's, whose work an old receipt must not end.
        return wall_ms(self.clock) >= receipt.pop_ms + receipt.invisible_ms


def _refuse_strangers(topic: str, queue: int, offsets: list[int]) -> None:
    """Raise RefusedError if there are any."""
    if offsets:
        remark = f"offset is illegal, key:{topic}@{queue}, not popped then:{offsets[0]}"
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)

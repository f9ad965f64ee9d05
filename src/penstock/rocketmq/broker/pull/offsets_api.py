"""Offsets, as clients ask for and commit them (RocketMQ spec 2.2, 4.4, 4.10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

YOUNG_BYTES_MAX: Final = 4 * 1024**3
"""A topic that holds more has old messages. Java asks whether the first one is still in memory."""
_EMPTY: Final = -1
"""The store time of the first message of a queue that has none."""


@dataclass(slots=True, eq=False)
class OffsetAnswers:
    """Answers about committed offsets and the bounds of queues."""

    offsets: ConsumerOffsets
    store: MessageStore

    @answers(RequestCode.QUERY_CONSUMER_OFFSET)
    def query_consumer_offset(self, connection: Connection, request: Command) -> Command:
        """The offset of a group. A new one begins at 0 as long as the queue is young.

        So even a group that wants the newest message starts with the first one, and only in an
        older queue may the client choose (RocketMQ spec 4.4).
        """
        group, topic = request.text("consumerGroup"), request.text("topic")
        queue = request.int32("queueId")
        offset = self.offsets.query(topic, group, queue)
        if offset is not None and offset >= 0:
            return _offset(request, offset)
        wants_zero = (request.optional("setZeroIfNotFound") or "true").lower() == "true"
        # Java answers 0 while the first message is in memory, whatever the client would choose.
        if wants_zero and self._is_young(topic, queue):
            return _offset(request, 0)
        remark = f"Not found: the group {group} has no offset in queue {queue} of {topic}"
        return request.answer(ResponseCode.QUERY_NOT_FOUND, remark, ext={})

    def _is_young(self, topic: str, queue: int) -> bool:
        """True if a queue is whole and short enough to read from its start; so for unknown ones."""
        found = self.store.topics.get(topic)
        young = found is None or found.log.nbytes <= YOUNG_BYTES_MAX
        return young and self.store.bounds(topic, queue)[0] == 0

    @answers(RequestCode.UPDATE_CONSUMER_OFFSET)
    def update_consumer_offset(self, connection: Connection, request: Command) -> Command:
        """Any topic, group and queue will do: that they exist is not checked, as in 4.9."""
        group, topic = request.text("consumerGroup"), request.text("topic")
        queue, offset = request.int32("queueId"), request.int64("commitOffset")
        known = self.offsets.query(topic, group, queue)
        # 4.9 stores any number; ali-ons sends -1 of queues that it has not read.
        # Clients repeat what they committed every 5 s; a repetition must not count as a move, which
        # ends the batch that a group popping in order has out.
        if offset >= 0 and offset != known:
            self.offsets.commit(topic, group, queue, offset)
            self.offsets.moved(topic, group, queue)
        return request.answer(ext={})

    @answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    def search_offset(self, connection: Connection, request: Command) -> Command:
        topic, queue = request.text("topic"), request.int32("queueId")
        return _offset(
            request, offset_by_time(self.store, topic, queue, request.int64("timestamp"))
        )

    @answers(RequestCode.GET_MAX_OFFSET)
    def max_offset(self, connection: Connection, request: Command) -> Command:
        _low, high = self._bounds(request)
        return _offset(request, high)

    @answers(RequestCode.GET_MIN_OFFSET)
    def min_offset(self, connection: Connection, request: Command) -> Command:
        low, _high = self._bounds(request)
        return _offset(request, low)

    def _bounds(self, request: Command) -> tuple[int, int]:
        return self.store.bounds(request.text("topic"), request.int32("queueId"))

    @answers(RequestCode.GET_EARLIEST_MSG_STORETIME)
    def earliest_store_time(self, connection: Connection, request: Command) -> Command:
        topic, queue = request.text("topic"), request.int32("queueId")
        low, _high = self.store.bounds(topic, queue)
        ms = self.store.stored_ms(topic, queue, low)
        # Java answers -1 for an empty queue.
        return request.answer(ext={"timestamp": str(_EMPTY if ms is None else ms)})

    @answers(RequestCode.GET_ALL_CONSUMER_OFFSET)
    def all_consumer_offsets(self, connection: Connection, request: Command) -> Command:
        """The offset of each group in each queue: ``{"topic@group":{0:1}}``."""
        return json_answer(request, self.offsets.as_json())


def offset_by_time(store: MessageStore, topic: str, queue: int, ms: int) -> int:
    """The first message stored then or later; the last one when all are older; 0 for no queue."""
    low, high = store.bounds(topic, queue)
    # An emptied queue goes on at its end; in one that never had a message that is 0.
    if low == high:
        return high
    # 4.9 answers the last message for a time after it, where 5.x answers the end.
    return min(store.offset_at_time(topic, queue, ms), high - 1)


def _offset(request: Command, offset: int) -> Command:
    return request.answer(ext={"offset": str(offset)})

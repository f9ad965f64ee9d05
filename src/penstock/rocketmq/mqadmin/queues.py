"""Reading queues: their bounds, the offset at a time, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.offsets import server_of
from penstock.rocketmq.client.consume.pulling import Pulled, Puller
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.java_text import queue_order
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

GROUP: Final = "TOOLS_CONSUMER"
_PULL_TIMEOUT_S: Final = 10.0


class Reader:
    """A reader of queues, as the group of upstream's tools."""

    def __init__(self, admin: Admin, group: str = GROUP) -> None:
        self._admin = admin
        self._puller = Puller(admin.hub, group)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, in their order."""
        return sorted(self._admin.route(topic).readable(topic), key=queue_order)

    def first(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return self._offset(queue, RequestCode.GET_MIN_OFFSET)

    def end(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._offset(queue, RequestCode.GET_MAX_OFFSET)

    def at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset that was stored at this time or later."""
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return self._offset(queue, code, timestamp=timestamp_ms)

    def pull(self, queue: MessageQueue, offset: int, wanted: Filter, most: int) -> Pulled:
        """The next messages of a queue from an offset on."""
        return self._admin.run(
            self._puller.pull(queue, offset, wanted, most=most, timeout_s=_PULL_TIMEOUT_S)
        )

    def pulls(
        self, queue: MessageQueue, start: int, end: int, expression: str, most: int
    ) -> Iterator[Pulled]:
        """Pulls from one offset up to another, each on from where the one before ended."""
        wanted = Filter(expression)
        while start < end:
            found = self.pull(queue, start, wanted, most)
            yield found
            start = found.next_offset

    def _offset(self, queue: MessageQueue, code: RequestCode, **more: object) -> int:
        address = self._admin.run(server_of(self._admin.hub, queue))
        fields = {"topic": queue.topic, "queueId": queue.queueId, **more}
        return self._admin.ask(address, code, fields).int64("offset")

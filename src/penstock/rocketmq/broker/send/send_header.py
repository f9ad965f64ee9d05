"""The fields of a send request, under their long names or the letters of version 2.

See RocketMQ spec 2.1.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

_NUMBERS = struct.Struct(">iiiiq")
_LONG = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
         "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes",
         "batch")  # fmt: skip
_SHORT = tuple("abcdefghijklm")
_LONG_CODES = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE))


def field_names(code: int) -> tuple[str, ...]:
    """The names of the fields in a request with this code, in the order of version 2's letters."""
    return _LONG if code in _LONG_CODES else _SHORT


class SendHeader(Struct, frozen=True, gc=False):
    """The fields of a producer's send request. ``queue`` is -1 where the broker may choose."""

    producer_group: str
    topic: str
    default_topic: str
    default_queues: int
    queue: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: str
    reconsume_times: int
    max_reconsume_times: int | None
    unit_mode: bool
    batch: bool

    @classmethod
    def of(cls, request: Command) -> SendHeader:
        """Parse the fields; the caller refuses a blank topic. Raises BodyError for a bad number."""
        ext = request.ext
        if ext is None:
            raise BodyError("a send without fields")
        names = field_names(request.code)
        (group, topic, template, queues, queue, sys_flag, born_ms, flag, properties, times, unit,
         most, batch) = map(ext.get, names)  # fmt: skip
        try:
            return cls(
                group or "",
                topic or "",
                template or "",
                int(queues or 0),
                int(queue or 0),
                int(sys_flag or 0),
                int(born_ms or 0),
                int(flag or 0),
                properties or "",
                int(times or 0),
                int(most) if most else None,
                unit is not None and unit.lower() == "true",
                batch is not None and batch.lower() == "true",
            )
        except ValueError as error:
            raise BodyError(f"a field of the send is not a number: {error}") from None

    def check(self) -> None:
        """Raise BodyError for numbers that have no place in a stored message."""
        numbers = (self.queue, self.sys_flag, self.flag, self.reconsume_times, self.born_ms)
        try:
            _NUMBERS.pack(*numbers)
        except struct.error:
            raise BodyError(f"a number of the send has too many bits: {numbers}") from None

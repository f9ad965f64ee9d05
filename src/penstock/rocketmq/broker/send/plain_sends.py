"""Plain sends: those that compiled code takes from what a connection reads (``penstock.lane``).

A send is plain if it only stores messages in a queue of a topic that is there: without delay,
transaction or receipt, and not one-way. ``sending`` takes all others, and all of them where no
compiled code is; what is stored and answered is the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.send import sending
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.ids import host_bytes, host_digits
from penstock.rocketmq.protocol.messages.message import topic_part
from penstock.storage.queues.one_queue import OneQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.topic import Topic
    from penstock.core.errors import StorageError
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.send.sending import Sends

_MARKS: Final = "\x11", "\x12", "\x13"
_OPAQUE: Final = slice(13, 17)  # in a frame with a binary header


class Route(NamedTuple):
    """The way of plain sends to a topic, as long as the table of topics stays as it is."""

    topic: Topic
    part: bytes
    """The topic's name with its length, as in a stored message."""
    base: int
    """The physical offset of the message whose id is 0."""
    queues: int


class PlainSends:
    """The parts of a broker that plain sends need."""

    def __init__(self, sends: Sends) -> None:
        """``sends`` are those that are not plain."""
        self.settings = sends.settings
        self.topics = sends.topics
        self.stats = sends.stats
        self.cluster_property = sends.cluster_property
        self.shared_text = sends.shared_text
        self.store_host = host_bytes(sends.store.address)
        self.id_digits = host_digits(sends.store.address).encode()
        self.serializations = tuple(Serialization)
        self._sends = sends
        self._answers: dict[tuple[str, bool], tuple[tuple[bytes, ...], ...]] = {}

    @property
    def answers(self) -> tuple[tuple[bytes, ...], ...]:
        """The pieces of an answer in each serialisation, with the broker's own fields as they are
        set now.
        """
        key = self.settings.region_id, self.settings.trace_on
        found = self._answers.get(key)
        if found is None:
            found = tuple(_pieces(self._sends, kind) for kind in Serialization)
            self._answers = {key: found}
        return found

    @staticmethod
    def are_served(sends: Sends, acl: Acl | None) -> bool:
        """True if a broker with these settings may have any."""
        if sends.settings.is_slave or sends.slave_acks is not None:
            return False
        return acl is None and sends.flush_timeouts is None

    def route(self, name: bytes) -> Route | None:
        """The way to a topic; None if its sends are not plain, at least for now."""
        topic_name = name.decode("utf-8", "replace")
        store = self._sends.store
        config, topic = self.topics.get(topic_name), store.topics.get(topic_name)
        if config is None or topic is None or config.order or topic.exiting:
            return None
        if topic_name in names.NOT_FOR_CLIENTS or names.is_inner(topic_name):
            return None
        queues = max(config.read_queues, config.write_queues)
        # For a higher queue than the first the log has to be split before (put_records).
        if not store.has(topic_name) or (queues > 1 and isinstance(topic.queues, OneQueue)):
            return None
        return Route(topic, topic_part(name), store.base(topic_name), queues)

    def failed(
        self,
        serialization: int,
        opaque: int,
        count: int,
        queue: int,
        queue_offset: int,
        physical_offset: int,
        error: StorageError,
    ) -> Command:
        """The answer to a send that met this error; its places are given as if it was stored."""
        request = Command(0, opaque, serialization=Serialization(serialization))
        code = sending.error_code(error)
        if code in sending.STORED:
            ids = self._sends.store.message_ids(physical_offset, count)
            return self._sends.stored(request, code, ids, str(queue), str(queue_offset))
        self.stats.put_failed()
        return sending.storage_failure(request, code, error)


def _pieces(sends: Sends, serialization: Serialization) -> tuple[bytes, ...]:
    """The six pieces of an answer to a send: between them go the request's number, the message ids,
    queue and offset, and once more the number. The binary serialisation has it at the first of
    these places, JSON at the last; two pieces are one there.
    """
    request = Command(0, 0, serialization=serialization)
    answer = frames.encode(sends.stored(request, ResponseCode.SUCCESS, *_MARKS))
    if serialization is Serialization.BINARY:
        # A value stands behind its length.
        values = [(1).to_bytes(4) + mark.encode() for mark in _MARKS]
        return answer[: _OPAQUE.start], *_cut(answer[_OPAQUE.stop :], values), b""
    first, *others, last = _cut(answer, [json.dumps(mark)[1:-1].encode() for mark in _MARKS])
    before, name, behind = last.partition(b'"opaque":')
    return first, b"", *others, before + name, behind.removeprefix(b"0")


def _cut(data: bytes, marks: Sequence[bytes]) -> list[bytes]:
    """The pieces between these bytes, each of which stands there once."""
    pieces = []
    for mark in marks:
        piece, _, data = data.partition(mark)
        pieces.append(piece)
    return [*pieces, data]

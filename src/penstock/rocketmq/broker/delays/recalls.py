"""Recalls: messages that wait for their delivery time are taken back before it comes.

The answer to such a send has a handle, ``v1 topic broker time id`` in base64 as Java's brokers of
5.x write it; behind that ours has the queue offset at which the message waits. A handle without it,
as Java's public HandleV1 makes them, is of all messages with that id that are due within a second,
as for Java's broker. A recall is a message of the same system topic, so that it survives what the
message survives.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.clock import wall_ms
from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.delays.timers import QUEUE, RECALLED
from penstock.rocketmq.broker.state.topic_table import WRITE
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.delays.timers import Timers
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.key_index import KeyIndex
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

_VERSION: Final = "v1"
_WRONG_TIME: Final = "recall failed, timestamp invalid"
_WORDS_MIN: Final = 5
_NO_ID: Final = "null"
"""Java's word for the id of a message without one."""
_GRAIN_MS: Final = 1000
"""Java's wheel of timers tells no shorter times apart."""
SAME_ID_MAX: Final = 100
"""Messages with one id that one recall may be of; producers give each its own."""
_SAME_ID_BYTES: Final = 64 * 1024 * 1024
_FAR_MS: Final = 1 << 52


class Handle(NamedTuple):
    """The words of a handle. ``due_ms`` is a ms more than the message says, as in Java."""

    version: str
    topic: str
    broker: str
    due_ms: str
    message_id: str
    offset: str = ""
    """Empty where the handle was not made here."""

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Parse a recall handle. Raises RefusedError."""
        try:
            padded = text + "=" * (-len(text) % 4)  # Java's decoder needs no padding
            words = base64.b64decode(padded, b"-_", validate=True).decode().split(" ")
        except (binascii.Error, ValueError):
            words = []
        # Java takes handles with further words, and heeds none of them.
        if len(words) < _WORDS_MIN or words[0] != _VERSION:
            raise _illegal("recall handle is invalid")
        return cls(*words[: len(cls._fields)])

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(" ".join(self).rstrip().encode()).decode()


def handle_of(draft: Draft, broker: str, offset: int) -> Handle:
    """The handle of a message that waits at this queue offset of the system topic."""
    found = properties.parse(draft.properties)
    due_ms = properties.number(found.get(properties.TIMER_OUT_MS)) or 0
    unique_id = found.get(properties.UNIQUE_KEY, _NO_ID)
    topic = found[properties.REAL_TOPIC]
    return Handle(_VERSION, topic, broker, str(due_ms + 1), unique_id, str(offset))


@dataclass(slots=True, eq=False)
class Recalls:
    """Answers to recalls."""

    settings: BrokerSettings
    topics: TopicTable
    store: MessageStore
    keys: KeyIndex
    timers: Timers
    clock: Clock

    @answers(RequestCode.RECALL_MESSAGE)
    async def recall(self, connection: Connection, request: Command) -> Command:
        """Answered when the recall is stored; doing so again changes nothing."""
        try:
            handle = self._checked(request)
            offsets = await self._offsets(handle)
        except RefusedError as error:
            ext = {"MSG_REGION": self.settings.region_id}
            return request.answer(error.code, str(error), ext=ext)
        for offset in offsets:
            await self._recall(offset)
        ext = {"MSG_REGION": self.settings.region_id, "msgId": handle.message_id}
        return request.answer(ext=ext)

    async def _recall(self, offset: int) -> None:
        """Take back the message at a queue offset. Raises StorageError, and it waits on then."""
        marker = properties.join({RECALLED: str(offset)})
        # Before it is stored, so that it is not delivered meanwhile; a failure takes it back.
        is_first = self.timers.recall(offset)
        try:
            await self.store.append(Draft(names.TIMER_TOPIC, QUEUE, b"", marker))
        except StorageError:
            if is_first:
                self.timers.restore(offset)
            raise

    def _checked(self, request: Command) -> Handle:
        """The handle of a message that waits. Raises RefusedError, in Java's words and order."""
        settings = self.settings
        if not settings.recall_message_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if not settings.broker_permission & WRITE:
            raise RefusedError(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
            )
        topic = request.text("topic")
        permissions.known_topic(self.topics, topic)
        handle = Handle.parse(request.text("recallHandle"))
        if handle.topic != topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker != settings.broker_name:
            raise _illegal("recall failed, broker service not available")
        # Compared with the system's time, in which the handle was made.
        if (properties.number(handle.due_ms) or 0) <= wall_ms(self.clock):
            raise _illegal(_WRONG_TIME)
        return handle

    async def _offsets(self, handle: Handle) -> list[int]:
        """The queue offsets at which messages wait that the handle is of. Raises RefusedError."""
        if handle.offset:
            found = [
                offset
                for offset in (properties.number(handle.offset),)
                if offset is not None and self._is_there(handle, offset)
            ]
        else:
            found = await self._with_id(handle)
        if not found:
            raise _illegal(_WRONG_TIME)
        return found

    async def _with_id(self, handle: Handle) -> list[int]:
        """The queue offsets of messages with the id that wait for about the same time."""
        found = await self.keys.find(
            names.TIMER_TOPIC, handle.message_id, 0, _FAR_MS, SAME_ID_MAX, _SAME_ID_BYTES
        )
        due_ms = properties.number(handle.due_ms) or 0
        offsets = []
        for frame in found.frames:
            message, _ = decode(frame)
            other = handle_of(Draft.of(message), handle.broker, message.queue_offset)
            is_same = (other.topic, other.message_id) == (handle.topic, handle.message_id)
            other_ms = int(other.due_ms)
            is_near = abs(other_ms - due_ms) <= _GRAIN_MS and other_ms > wall_ms(self.clock)
            if is_same and is_near and message.body:
                offsets.append(message.queue_offset)
        return offsets

    def _is_there(self, handle: Handle, offset: int) -> bool:
        """True if the handle is that of a message which was stored to wait."""
        message = self.store.message_at(names.TIMER_TOPIC, QUEUE, offset)
        if message is None or not message.body:
            return False
        return handle == handle_of(Draft.of(message), handle.broker, offset)


def _illegal(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)

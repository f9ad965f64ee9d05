"""Single messages by key and by id (RocketMQ spec 2.5, QUERY_MESSAGE and VIEW_MESSAGE_BY_ID)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.store import nsq_messages
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.frames import FRAME_MAX
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.store.key_index import KeyIndex
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

BODY_MAX: Final = FRAME_MAX - 64 * 1024
"""The limit beyond which an answer would be more than clients read as one frame."""
_NOT_FOUND: Final = "can not find message, maybe time range not correct"
_UNIQUE_QUERY: Final = "_UNIQUE_KEY_QUERY"


@dataclass(slots=True, eq=False)
class MessageQueries:
    """Answers with single messages."""

    settings: BrokerSettings
    store: MessageStore
    keys: KeyIndex

    @answers(RequestCode.QUERY_MESSAGE)
    async def query_message(self, connection: Connection, request: Command) -> Command:
        """The newest messages of a topic with a key, the oldest of them first."""
        topic, key = request.text("topic"), request.text("key")
        begin_ms, end_ms = request.int64("beginTimestamp"), request.int64("endTimestamp")
        settings = self.settings
        count = request.int32("maxNum")
        if request.boolean(_UNIQUE_QUERY):
            # Java asks for 32 messages with a unique key, whatever the client wants.
            count = settings.default_query_max_num
        count = min(count, settings.max_msgs_num_batch)
        found = await self.keys.find(topic, key, begin_ms, end_ms, count, BODY_MAX)
        last = (
            self.store.serials.physical(topic, found.last_offset) if found.last_offset >= 0 else 0
        )
        answer = request.answer(
            ext={
                "indexLastUpdateTimestamp": str(found.last_ms),
                "indexLastUpdatePhyoffset": str(last),
            }
        )
        frames = found.frames
        if not frames and count > 0:
            from_nsq = self._nsq_message(topic, key, begin_ms, end_ms)
            frames = [from_nsq] if from_nsq is not None else []
        if frames:
            answer.body = b"".join(frames)
        else:
            # Java's client takes this code for "not on this broker", and asks the next one.
            answer.code, answer.remark = ResponseCode.QUERY_NOT_FOUND, _NOT_FOUND
        return answer

    def _nsq_message(self, topic: str, key: str, begin_ms: int, end_ms: int) -> bytes | None:
        """A message that NSQ's side published: its key tells where it is."""
        message_id, found = nsq_messages.id_of(key), self.store.topics.get(topic)
        if message_id is None or found is None:
            return None
        if not found.log.start_offset <= message_id - found.log.id_base < found.log.next_offset:
            return None
        physical = self.store.serials.physical(topic, message_id - found.log.id_base)
        frame = self.store.frame(physical)
        if frame is None:
            return None
        message, _ = decode(frame)
        if properties.value_of(message.properties, properties.UNIQUE_KEY) != key:
            return None
        return frame if begin_ms <= message.store_ms <= end_ms else None

    @answers(RequestCode.VIEW_MESSAGE_BY_ID)
    def view_message(self, connection: Connection, request: Command) -> Command:
        """The message at a physical offset."""
        return request.answer(body=need_frame(self.store, request.int64("offset")))


def need_frame(store: MessageStore, physical: int) -> bytes:
    """The stored message at a physical offset. Raises RefusedError when it is not there."""
    frame = store.frame(physical)
    if frame is None:
        remark = f"can not find message by the offset, {physical}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    return frame

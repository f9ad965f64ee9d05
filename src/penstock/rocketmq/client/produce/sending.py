"""Requests that send messages, and what their answers say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadAnswer, BadMessage, refusal
from penstock.rocketmq.client.message import INSTANCE_ID, Message
from penstock.rocketmq.client.names import RETRY, wrap
from penstock.rocketmq.client.produce.compression import compress
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.message import SysFlag

_BATCH_ENTRY_BYTES: Final = 22
"""Bytes of a message in a batch beside its body and its properties."""


class SendStatus(IntEnum):
    """Outcomes of a send; a message is stored in all of them, and safe with ``SEND_OK``."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


_STATUSES: Final = frozenset(map(int, SendStatus))


class SendResult(NamedTuple):
    """The place of a stored message; ``id`` is the producer's, ``offset_id`` the broker's."""

    status: SendStatus
    id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str = ""
    region: str = ""
    recall_handle: str = ""
    """The handle to take the message back before its time, where the broker allows that."""

    @property
    def physical_offset(self) -> int:
        """The message's offset in the broker's log. Raises BadAnswer when the answer lacked it."""
        try:
            return OffsetId.parse(self.offset_id).offset
        except BodyError as error:
            raise BadAnswer(f"broker {self.queue.brokerName}: {error}") from None


@dataclass(slots=True)
class Draft:
    """One message or a batch before its queue is chosen."""

    topic: str
    """The name that servers know."""
    body: bytes
    ids: list[str]
    properties: str
    sys_flag: int = 0
    flag: int = 0
    is_batch: bool = False
    code: RequestCode = RequestCode.SEND_MESSAGE_V2
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    def request(self, group: str, queue: MessageQueue, born_ms: int, config: Config) -> Command:
        """The request that sends it to this queue."""
        fields = {
            # RocketMQ spec 2.1, code 310: the same as 10, with short names.
            "a": group, "b": self.topic, "c": config.create_topic_key,
            "d": str(config.default_topic_queue_nums), "e": str(queue.queueId),
            "f": str(self.sys_flag), "g": str(born_ms), "h": str(self.flag), "i": self.properties,
            "j": str(self.reconsume_times), "k": "false", "m": "true" if self.is_batch else "false",
            "n": queue.brokerName,
        }  # fmt: skip
        if self.max_reconsume_times is not None:
            fields["l"] = str(self.max_reconsume_times)
        return Command(self.code, 0, fields, self.body)


def draft(message: Message, unique_id: str, config: Config, **more: str) -> Draft:
    """One message; ``more`` are properties that a program may not set. Raises BadMessage."""
    found = {**message.to_properties(unique_id), **more}
    if config.namespace:
        found[INSTANCE_ID] = config.namespace
    body, sys_flag = bytes(message.body), 0
    if len(body) >= config.compress_msg_body_over_howmuch:
        packed, bits = compress(body, config.compress_type, config.compress_level)
        if len(packed) < len(body):  # else a broker might find it too long
            body, sys_flag = packed, bits
    if found.get(properties.TRANSACTION):
        sys_flag |= int(SysFlag.PREPARED)
    topic = wrap(config.namespace, message.topic)
    return Draft(topic, body, [unique_id], _joined(found), sys_flag, message.flag)


def drafts_of(messages: Sequence[tuple[Message, str]], config: Config) -> list[Draft]:
    """Batches of these messages, each with its id: as many as ``max_message_size`` makes needful.

    Raises BadMessage for messages that cannot be in one batch.
    """
    _check_alike([message for message, _ in messages])
    more = {INSTANCE_ID: config.namespace} if config.namespace else {}
    parts: list[list[tuple[str, batch_body.BatchedMessage]]] = []
    room = 0
    for message, unique_id in messages:
        text = _joined({**message.to_properties(unique_id), **more})
        entry = batch_body.BatchedMessage(bytes(message.body), text, message.flag)
        nbytes = len(entry.body) + len(text.encode("utf-8", "replace")) + _BATCH_ENTRY_BYTES
        if nbytes > room or not parts:
            parts.append([])
            room = config.max_message_size
        parts[-1].append((unique_id, entry))
        room -= nbytes
    return [_batch(messages[0][0], part, config) for part in parts]


def _batch(
    first: Message, part: list[tuple[str, batch_body.BatchedMessage]], config: Config
) -> Draft:
    body = batch_body.encode(entry for _, entry in part)
    waits = "true" if first.wait_store else "false"
    return Draft(
        wrap(config.namespace, first.topic),
        body,
        [unique_id for unique_id, _ in part],
        properties.join({properties.WAIT: waits}),
        is_batch=True,
        code=RequestCode.SEND_BATCH_MESSAGE,
    )


def _check_alike(messages: Sequence[Message]) -> None:
    if not messages:
        raise BadMessage("a batch has one message at least")
    if len({message.topic for message in messages}) > 1:
        raise BadMessage("The topic of the messages in one batch should be the same")
    # A batch has one WAIT for all of its messages, in the header's properties.
    if len({message.wait_store for message in messages}) > 1:
        raise BadMessage("wait_store of the messages in one batch should be the same")
    if messages[0].topic.startswith(RETRY):
        raise BadMessage("Retry Group is not supported for batching")
    if any(message.is_delayed for message in messages):
        raise BadMessage("delayed messages are not supported for batching: send them one by one")


def _joined(found: dict[str, str]) -> str:
    text = properties.join(found)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:  # of the name of a file, for one
        half = ascii(text[error.start])
        raise BadMessage(
            f"properties, tags or keys hold {half}, which is not a character"
        ) from None
    if len(encoded) > properties.BYTES_MAX:
        raise BadMessage(f"properties of more than {properties.BYTES_MAX} bytes")
    # Else a tag or a key could be followed by any property, the broker's own among them.
    count = sum(map(bool, found.values()))
    if not text.count(properties.NAME_END) == text.count(properties.VALUE_END) == count:
        raise BadMessage("tags, keys or sharding_key hold a character that separates properties")
    return text


def results(answer: Command, sent: Draft, queue: MessageQueue, address: str) -> list[SendResult]:
    """The outcome of each message. Raises BrokerError, BadAnswer."""
    if answer.code not in _STATUSES:
        raise refusal(address, answer.code, answer.remark, f"topic {queue.topic}")
    status = SendStatus(answer.code)
    fields = answer.ext or {}
    try:
        number, first = answer.int32("queueId"), answer.int64("queueOffset")
    except BodyError as error:
        raise BadAnswer(f"{address}: {error} in the answer to a send") from None
    target = MessageQueue(queue.brokerName, number, queue.topic)
    offset_ids = fields.get("msgId", "").split(",")
    more = [fields.get(name, "") for name in ("transactionId", "MSG_REGION", "recallHandle")]
    return [
        SendResult(
            status,
            unique_id,
            # Too few ids are not a reason to fail: the messages are stored.
            offset_ids[index] if index < len(offset_ids) else "",
            target,
            first + index,
            *more,
        )
        for index, unique_id in enumerate(sent.ids)
    ]

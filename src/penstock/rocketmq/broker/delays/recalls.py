"""Recalls: messages that wait for their delivery time are taken back before it comes.

The answer to such a send has a handle, ``v1 topic broker time id`` in base64 as Java's brokers of
5.x write it; behind that ours has the queue offset at which the message waits. A recall is a
message of the same system topic, so that it survives what the message survives. Java's broker
stores one under the id, and drops all messages with that id that are due in the same second.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.delays.timers import QUEUE, RECALLED
from penstock.rocketmq.broker.send.draft import Draft
from penstock.rocketmq.broker.topics import WRITE
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

_VERSION: Final = "v1"
_NO_ID: Final = "null"
"""Java's word for the id of a message without one."""


class Handle(NamedTuple):
    """The words of a handle. ``due_ms`` is a ms more than the message says, as in Java."""

    version: str
    topic: str
    broker: str
    due_ms: str
    message_id: str
    offset: str

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Parse a recall handle. Raises RefusedError."""
        try:
            words = base64.b64decode(text, b"-_", validate=True).decode().split(" ")
        except (binascii.Error, ValueError):
            words = []
        if len(words) != len(cls._fields) or words[0] != _VERSION:
            raise _illegal("recall handle is invalid")
        return cls(*words)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(" ".join(self).encode()).decode()


def handle_of(draft: Draft, broker: str, offset: int) -> Handle:
    """The handle of a message that waits at this queue offset of the system topic."""
    found = properties.parse(draft.properties)
    due_ms = properties.number(found.get(properties.TIMER_OUT_MS)) or 0
    unique_id = found.get(properties.UNIQUE_KEY, _NO_ID)
    topic = found[properties.REAL_TOPIC]
    return Handle(_VERSION, topic, broker, str(due_ms + 1), unique_id, str(offset))


@answers(RequestCode.RECALL_MESSAGE)
async def recall(controller: Controller, connection: Connection, request: Command) -> Command:
    """Answered when the recall is stored; doing so again changes nothing."""
    try:
        handle = _checked(controller, request)
    except RefusedError as error:
        ext = {"MSG_REGION": controller.settings.region_id}
        return request.answer(error.code, str(error), ext=ext)
    offset = int(handle.offset)
    marker = properties.join({RECALLED: str(offset)})
    is_first = controller.timers.recall(offset)
    try:
        await controller.store.append(Draft(names.TIMER_TOPIC, QUEUE, b"", marker))
    except StorageError:
        if is_first:
            controller.timers.restore(offset)
        raise
    ext = {"MSG_REGION": controller.settings.region_id, "msgId": handle.message_id}
    return request.answer(ext=ext)


def _checked(controller: Controller, request: Command) -> Handle:
    """The handle of a message that waits. Raises RefusedError, in Java's words and order."""
    settings = controller.settings
    if not settings.recall_message_enable:
        raise RefusedError(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if not settings.broker_permission & WRITE:
        raise RefusedError(
            ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
        )
    topic = request.text("topic")
    permissions.known_topic(controller, topic)
    handle = Handle.parse(request.text("recallHandle"))
    if handle.topic != topic:
        raise _illegal("recall failed, topic not match")
    if handle.broker != settings.broker_name:
        raise _illegal("recall failed, broker service not available")
    due_ms = properties.number(handle.due_ms) or 0
    if due_ms <= controller.now_ms or not _is_there(controller, handle):
        raise _illegal("recall failed, timestamp invalid")
    return handle


def _is_there(controller: Controller, handle: Handle) -> bool:
    """True if the handle is that of a message which was stored to wait."""
    offset = properties.number(handle.offset)
    if offset is None:
        return False
    message = controller.store.message_at(names.TIMER_TOPIC, QUEUE, offset)
    if message is None or not message.body:
        return False
    return handle == handle_of(Draft.of(message), handle.broker, offset)


def _illegal(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)

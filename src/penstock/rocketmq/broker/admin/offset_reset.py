"""Setting a group's offsets to a time, and asking its members where they are (RocketMQ spec 4.11).

The broker works out the new offsets and tells the members, who commit them themselves. So nothing
happens while none is online, but to groups that pop: how far those are is for the broker to say.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.clients.clients import Member
from penstock.rocketmq.broker.pull.offsets_api import offset_by_time
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.remoting import NoAnswerError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

LATEST: Final = -1
STATUS_S: Final = 5.0
"""The time that a member has to say where it is."""
_RESETS_SINCE: Final = 28
"""V3_0_7_SNAPSHOT: such clients understand what is asked of them here."""


@answers(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
def reset_offsets(controller: Controller, connection: Connection, request: Command) -> Command:
    topic, group = request.text("topic"), request.text("group")
    ms, is_force = request.int64("timestamp"), request.boolean("isForce")
    table = _new_offsets(controller, topic, group, ms, is_force=is_force)
    members = _members(controller, group)
    for member in members:
        _check_version(member)
    offsets = {queue.queueId: offset for queue, offset in table.items()}
    place = _place(controller, topic, ms)
    if not controller.pops.reset(topic, group, offsets, place, is_force=is_force) and not members:
        raise RefusedError(
            ResponseCode.CONSUMER_NOT_ONLINE,
            "Consumer not online, so can not reset offset, "
            f"Group: {group} Topic: {topic} Timestamp: {ms}",
        )
    ext = {"topic": topic, "group": group, "timestamp": str(ms), "isForce": str(is_force).lower()}
    body = fastjson.dumps({"offsetTable": _in_form_of(request.language, table)})
    for member in members:
        member.peer.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body)
    logger.info("%s reset the offsets of %s in %s to %d ms", connection.address, group, topic, ms)
    return json_answer(request, {"offsetTable": table})


def _new_offsets(
    controller: Controller, topic: str, group: str, ms: int, *, is_force: bool
) -> dict[MessageQueue, int]:
    """The offset of each queue at that time; without force never later than it is now.

    Raises RefusedError for an unknown topic, and for a queue that the group has no offset in.
    """
    config = controller.topics.get(topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    table = {}
    for queue in range(config.write_queues):
        current = controller.offsets.query(topic, group, queue)
        if current is None:
            # The spelling is Java's 4.9: one queue without an offset stands for the whole group.
            remark = f"THe consumer group <{group}> not exist"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        if ms == LATEST:
            wanted = controller.store.bounds(topic, queue)[1]
        else:
            wanted = offset_by_time(controller, topic, queue, ms)
        name = MessageQueue(controller.settings.broker_name, queue, topic)
        # Without force Java never moves a group forward.
        table[name] = wanted if is_force else min(wanted, current)
    return table


def _place(controller: Controller, topic: str, ms: int) -> int:
    """The place of that time in the log of a topic."""
    log = controller.store.topic(topic).log
    if ms == LATEST:
        return log.next_offset
    return max(log.start_offset, log.offset_at(ms * MILLISECOND))


def _in_form_of(language: Language, table: dict[MessageQueue, int]) -> Any:
    """C++ tools and clients know a list, the others a map with objects as keys."""
    # Java chooses the form by the tool's language, not by that of the consumer.
    if language == Language.CPP:
        return [{**queue._asdict(), "offset": offset} for queue, offset in table.items()]
    return table


def _members(controller: Controller, group: str) -> list[Member[Connection]]:
    found = controller.clients.consumers.get(group)
    return list(found.members.values()) if found is not None else []


def _check_version(member: Member[Connection]) -> None:
    if member.version < _RESETS_SINCE:
        remark = f"the client does not support this feature. version={member.version}"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)


@answers(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
async def consumer_status(
    controller: Controller, connection: Connection, request: Command
) -> Command:
    """The place of each member in each of its queues; one that does not answer is left out."""
    topic, group = request.text("topic"), request.text("group")
    members = _members(controller, group)
    if not members:
        remark = f"No Any Consumer online in the consumer group: [{group}]"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    for member in members:
        _check_version(member)
    wanted = request.optional("clientAddr")  # a client id, in spite of its name
    asked = [member for member in members if wanted in (None, member.client_id)]
    found = await asyncio.gather(*(_status(member, topic, group) for member in asked))
    table = {m.client_id: offsets for m, offsets in zip(asked, found, strict=True)}
    return json_answer(request, {"consumerTable": table, "messageQueueTable": {}})


async def _status(member: Member[Connection], topic: str, group: str) -> dict[Any, Any] | None:
    try:
        answer = await member.peer.invoke(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            {"topic": topic, "group": group},
            seconds=STATUS_S,
        )
        value = fastjson.loads(answer.body) if answer.code == 0 and answer.body else None
    except (NoAnswerError, BodyError) as error:
        logger.warning("%s was asked for the offsets of %s in vain: %s",
                     member.client_id, group, error)  # fmt: skip
        return None
    offsets = value.get("messageQueueTable") if isinstance(value, dict) else None
    return offsets if isinstance(offsets, dict) else None

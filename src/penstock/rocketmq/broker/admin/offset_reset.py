"""Setting a group's offsets, and asking its members where they are (RocketMQ spec 4.11).

The broker works out the offsets at a time and tells the members, who commit them themselves. So
nothing happens while none is online, but to groups that pop: how far those are is for the broker to
say. Of one queue alone, the broker commits the offset itself.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.pull.offsets_api import offset_by_time
from penstock.rocketmq.broker.state import files
from penstock.rocketmq.broker.state.clients import Member
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.remoting import NoAnswerError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.pop.pops import Pops
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

LATEST: Final = -1
_ALL_QUEUES: Final = -1
_BY_TIME: Final = -1
"""The offset of a request whose time counts."""
STATUS_S: Final = 5.0
"""The time that a member has to say where it is."""
_RESETS_SINCE: Final = 28
"""V3_0_7_SNAPSHOT: such clients understand what is asked of them here."""


@dataclass(slots=True, eq=False)
class OffsetReset:
    """Commands that move groups, and ask where they are."""

    settings: BrokerSettings
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    clients: Clients[Connection]
    files: StateFiles
    store: MessageStore
    pops: Pops

    @answers(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    def reset_offsets(self, connection: Connection, request: Command) -> Command:
        """All queues of a topic go on at a time; 5.x also names one queue, and an offset in it."""
        topic, group, ms = request.text("topic"), request.text("group"), request.int64("timestamp")
        is_force, queue = request.boolean("isForce"), request.int32("queueId", _ALL_QUEUES)
        members = self._members(group)
        if queue < 0:
            table = self._new_offsets(topic, group, ms, is_force=is_force)
            _check_versions(members)
            is_moved = self._move(topic, group, ms, table, is_force=is_force)
            if not is_moved and not members:
                raise RefusedError(
                    ResponseCode.CONSUMER_NOT_ONLINE,
                    "Consumer not online, so can not reset offset, "
                    f"Group: {group} Topic: {topic} Timestamp: {ms}",
                )
        else:
            offset = self._wanted(request, queue)
            _check_versions(members)
            table = self._reset_one(topic, group, queue, offset)
        ext = {
            "topic": topic,
            "group": group,
            "timestamp": str(ms),
            "isForce": str(is_force).lower(),
        }
        body = fastjson.dumps({"offsetTable": _in_form_of(request.language, table)})
        for member in members:
            member.peer.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body)
        where = topic if queue < 0 else f"queue {queue} of {topic}"
        offsets = " ".join(f"{each.queueId}:{offset}" for each, offset in table.items())
        logger.info(
            "%s reset the offsets of %s in %s: %s", connection.address, group, where, offsets
        )
        return json_answer(request, {"offsetTable": table})

    def _move(
        self,
        topic: str,
        group: str,
        ms: int,
        table: dict[MessageQueue, int],
        *,
        is_force: bool,
    ) -> bool:
        """Let a group that pops go on at these offsets at once; False if it does not pop there."""
        offsets = {queue.queueId: offset for queue, offset in table.items()}
        place = self._place(topic, ms)
        return self.pops.reset(topic, group, offsets, place, is_force=is_force)

    def _wanted(self, request: Command, queue: int) -> int:
        """The offset that one queue is to go on at: the one stated, or that of a time.

        Raises RefusedError, as 5.x's brokers do, which ask nothing of ``isForce`` here.
        """
        topic, group = request.text("topic"), request.text("group")
        if self.topics.get(topic) is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if group not in self.groups.configs:
            remark = f"Group {group} does not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        low, end = self.store.bounds(topic, queue)
        offset, ms = request.int64("offset", _BY_TIME), request.int64("timestamp")
        if offset == _BY_TIME:
            return end if ms < 0 else offset_by_time(self.store, topic, queue, ms)
        if not low <= offset <= end:
            remark = f"Target offset {offset} not in consume queue range [{low}-{end}]"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        return offset

    def _reset_one(
        self, topic: str, group: str, queue: int, offset: int
    ) -> dict[MessageQueue, int]:
        """Commit the offset of one queue: as in 5.x, no member needs to be online for that.

        Raises RefusedError, BodyError, StorageError.
        """
        self.offsets.commit(topic, group, queue, offset)
        self.pops.reset_queue(topic, group, queue, offset)
        self.files.save(files.OFFSETS)
        return {MessageQueue(self.settings.broker_name, queue, topic): offset}

    def _new_offsets(
        self, topic: str, group: str, ms: int, *, is_force: bool
    ) -> dict[MessageQueue, int]:
        """The offset of each queue at that time; without force never later than it is now.

        Raises RefusedError for an unknown topic, and for a queue that the group has no offset in.
        """
        config = self.topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        table = {}
        for queue in range(config.write_queues):
            current = self.offsets.query(topic, group, queue)
            if current is None:
                # Java's 4.9 spells it so: one queue without an offset stands for the group.
                remark = f"THe consumer group <{group}> not exist"
                raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
            if ms == LATEST:
                wanted = self.store.bounds(topic, queue)[1]
            else:
                wanted = offset_by_time(self.store, topic, queue, ms)
            name = MessageQueue(self.settings.broker_name, queue, topic)
            # Without force Java never moves a group forward.
            table[name] = wanted if is_force else min(wanted, current)
        return table

    def _place(self, topic: str, ms: int) -> int:
        """The place of that time in the log of a topic."""
        log = self.store.topic(topic).log
        if ms == LATEST:
            return log.next_offset
        return max(log.start_offset, log.offset_at(ms * MILLISECOND))

    def _members(self, group: str) -> list[Member[Connection]]:
        found = self.clients.consumers.get(group)
        return list(found.members.values()) if found is not None else []

    @answers(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
    async def consumer_status(self, connection: Connection, request: Command) -> Command:
        """The place of each member in each of its queues; one that does not answer is left out."""
        topic, group = request.text("topic"), request.text("group")
        members = self._members(group)
        if not members:
            remark = f"No Any Consumer online in the consumer group: [{group}]"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        _check_versions(members)
        wanted = request.optional("clientAddr")  # a client id, in spite of its name
        asked = [member for member in members if wanted in (None, member.client_id)]
        found = await asyncio.gather(*(_status(member, topic, group) for member in asked))
        table = {m.client_id: offsets for m, offsets in zip(asked, found, strict=True)}
        return json_answer(request, {"consumerTable": table, "messageQueueTable": {}})


def _in_form_of(language: Language, table: dict[MessageQueue, int]) -> Any:
    """C++ tools and clients know a list, the others a map with objects as keys."""
    # Java chooses the form by the tool's language, not by that of the consumer.
    if language == Language.CPP:
        return [{**queue._asdict(), "offset": offset} for queue, offset in table.items()]
    return table


def _check_versions(members: list[Member[Connection]]) -> None:
    for member in members:
        if member.version < _RESETS_SINCE:
            remark = f"the client does not support this feature. version={member.version}"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)


async def _status(member: Member[Connection], topic: str, group: str) -> dict[Any, Any] | None:
    try:
        answer = await member.peer.invoke(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            {"topic": topic, "group": group},
            seconds=STATUS_S,
        )
        value = fastjson.loads(answer.body) if answer.code == 0 and answer.body else None
    except (NoAnswerError, BodyError) as error:
        logger.warning(
            "%s was asked for the offsets of %s in vain: %s", member.client_id, group, error
        )
        return None
    offsets = value.get("messageQueueTable") if isinstance(value, dict) else None
    return offsets if isinstance(offsets, dict) else None

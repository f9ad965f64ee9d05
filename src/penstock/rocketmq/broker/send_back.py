"""Messages that a consumer could not handle: back to it later, at last to the dead letters.

Each try is a level of delay longer than the one before. A message goes to the dead letters when it
was tried often enough, or when the consumer says so with a negative level (reference 2.1, 4.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import group_topics, names, permissions
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.delays.levels import RETRY_BASE
from penstock.rocketmq.broker.draft import Draft
from penstock.rocketmq.broker.groups import GroupConfig
from penstock.rocketmq.broker.topics import WRITE
from penstock.rocketmq.protocol import properties
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message import StoredMessage

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.remoting import Connection

_OWN_LIMIT_SINCE: Final = 121
"""V3_4_9: such clients say themselves how often a message may be tried."""


@answers(RequestCode.CONSUMER_SEND_MSG_BACK)
async def send_back(node: Node, connection: Connection, request: Command) -> Command:
    offset, level = request.int64("offset"), request.int32("delayLevel")
    config = group_topics.need_group(node, request.text("group"))
    permissions.need_broker(node, WRITE)
    if config.retry_queue_nums <= 0:
        return request.answer()  # a group that wants no retries
    topic = group_topics.retry_topic(node, config, unit_mode=request.boolean("unitMode"))
    permissions.need_topic(topic, WRITE)
    stored = node.store.message(offset)
    if stored is None:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
    most = _most_times(config, _limit_of(request), request.version)
    draft = _next_try(stored)
    if level < 0 or stored.reconsume_times >= most:
        _to_dead_letters(node, draft, config.group_name)
    else:
        draft.topic = topic.name
        draft.queue = offset % max(1, min(config.retry_queue_nums, topic.write_queues))
        _set_delay(draft, level or RETRY_BASE + stored.reconsume_times)
    await node.publish_one(draft)
    node.stats.sent_back(_origin(draft), config.group_name)
    return request.answer()


def dead_letter_rule(
    node: Node, draft: Draft, max_reconsume_times: int | None, client_version: int
) -> Draft:
    """What becomes of a message that a client sends to a retry topic itself.

    It is the draft, changed to go to the dead letters when it was tried often enough. Raises
    RefusedError when the group does not exist.
    """
    config = group_topics.need_group(node, draft.topic.removeprefix(names.RETRY_PREFIX))
    if draft.reconsume_times >= _most_times(config, max_reconsume_times, client_version):
        _to_dead_letters(node, draft, config.group_name)
    return draft


def _limit_of(request: Command) -> int | None:
    return request.int32("maxReconsumeTimes") if request.optional("maxReconsumeTimes") else None


def _most_times(config: GroupConfig, wanted: int | None, client_version: int) -> int:
    """How often a message may be tried: what the client says, or its group's setting."""
    if wanted is None or client_version < _OWN_LIMIT_SINCE:
        return config.retry_max_times
    return wanted


def _next_try(stored: StoredMessage) -> Draft:
    """A copy that knows where it comes from; its topic and queue are for the caller to set.

    Raises RefusedError when that leaves no room in its properties.
    """
    draft = Draft.of(stored)
    draft.reconsume_times += 1
    draft.prepared_offset = 0
    found = properties.parse(stored.properties)
    found.setdefault(properties.RETRY_TOPIC, stored.topic)
    found.setdefault(properties.ORIGIN_MESSAGE_ID, stored.offset_id)
    found[properties.WAIT] = "false"
    draft.properties = properties.join(found)
    if len(draft.properties.encode("utf-8", "replace")) > properties.BYTES_MAX:
        remark = f"the properties leave no room to say where {stored.offset_id} comes from"
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
    return draft


def _origin(draft: Draft) -> str:
    """The topic that its producer had sent a message to."""
    return properties.value_of(draft.properties, properties.RETRY_TOPIC) or draft.topic


def _to_dead_letters(node: Node, draft: Draft, group: str) -> None:
    node.stats.dead_lettered(_origin(draft), group)
    draft.topic = group_topics.dead_letter_topic(node, group).name
    draft.queue = 0
    _set_delay(draft, None)


def _set_delay(draft: Draft, level: int | None) -> None:
    """Replace whatever delay a message has had."""
    found = properties.parse(draft.properties)
    for name in (properties.DELAY, *properties.TIMERS):
        found.pop(name, None)
    if level is not None:
        found[properties.DELAY] = str(level)
    draft.properties = properties.join(found)


def dead_letter(node: Node, stored: StoredMessage, group: str) -> Draft:
    """A message that a group was given too often, as it goes to the group's dead letters."""
    draft = _next_try(stored)
    _to_dead_letters(node, draft, group)
    return draft

"""Offsets of queues and groups at a broker: where they are, and groups that are set elsewhere."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.client.admin.client import AdminClient, as_object
from penstock.rocketmq.client.admin.consume_stats import Progress, group_stats, queue_table
from penstock.rocketmq.client.admin.topics import topic_stats
from penstock.rocketmq.protocol import requests
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.message_queue import MessageQueue

TO_THE_END: Final = -1
"""The time that stands for the end of each queue."""


async def first_offset(client: AdminClient, address: str, queue: MessageQueue) -> int:
    """The first offset that a queue still has."""
    return (await client.ask(address, *requests.first_offset(queue))).int64("offset")


async def end_offset(client: AdminClient, address: str, queue: MessageQueue) -> int:
    """The offset that the next message will have."""
    return (await client.ask(address, *requests.end_offset(queue))).int64("offset")


async def offset_at(
    client: AdminClient, address: str, queue: MessageQueue, timestamp_ms: int
) -> int:
    """The offset of the first message that was stored at this time or later."""
    return (await client.ask(address, *requests.offset_at(queue, timestamp_ms))).int64("offset")


async def offset_to_go_on_at(
    client: AdminClient, address: str, queue: MessageQueue, timestamp_ms: int
) -> int:
    """The offset at which a group goes on that is set to a time, or TO_THE_END."""
    if timestamp_ms == TO_THE_END:
        return await end_offset(client, address, queue)
    return await offset_at(client, address, queue, timestamp_ms)


async def progress(
    client: AdminClient, address: str, group: str, topic: str
) -> dict[MessageQueue, Progress]:
    """A group in a broker's queues of a topic; at their beginning if it was never there."""
    stats = await group_stats(client, address, group, topic)
    if stats.queues:
        return stats.queues
    return {
        queue: Progress(int(each["maxOffset"]), int(each["minOffset"]), 0)
        for queue, each in (await topic_stats(client, address, topic)).items()
    }


async def commit(
    client: AdminClient, address: str, group: str, queue: MessageQueue, offset: int
) -> None:
    """Set a group to an offset of a queue."""
    await client.ask(address, *requests.commit(group, queue, offset))


async def reset_members(
    client: AdminClient,
    address: str,
    group: str,
    topic: str,
    timestamp_ms: int,
    *,
    force: bool = True,
    cpp: bool = False,
) -> dict[MessageQueue, int]:
    """Have a broker tell a group's members to go on at a time: by queue, where they go on.

    Without ``force`` they only go back. Raises Refused, with CONSUMER_NOT_ONLINE if there are no
    members.
    """
    fields = {
        "topic": topic,
        "group": group,
        "timestamp": timestamp_ms,
        "isForce": str(force).lower(),
    }
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    # Members in C++ want the table as a list, and brokers tell them by the request's language.
    language = Language.CPP if cpp else Language.PYTHON
    answer = await client.ask(address, code, fields, language=language)
    return _offsets(as_object(answer).get("offsetTable") or {})


def _offsets(table: Any) -> dict[MessageQueue, int]:
    if isinstance(table, list):
        return {MessageQueue.from_json(each): int(each["offset"]) for each in table}
    return {queue: int(offset) for queue, offset in queue_table(table).items()}

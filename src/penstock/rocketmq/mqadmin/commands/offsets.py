"""Sub-commands that set groups to other offsets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.rocketmq.client.admin.consume_stats import consume_stats
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.offsets import (
    TO_THE_END,
    commit,
    offset_to_go_on_at,
    progress,
    reset_members,
)
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.java_text import cut, parse_time, word
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

RESET: Final = Table(
    "queues", "%-40s  %-40d  %-40d", "broker queue offset", ("#brokerName", "#queueId", "#offset")
)
ROLLED_BACK: Final = Table(
    "queues",
    "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d",
    "broker queue brokerOffset consumerOffset timestampOffset rollbackOffset",
    (
        "#brokerName",
        "#queueId",
        "#brokerOffset",
        "#consumerOffset",
        "#timestampOffset",
        "#rollbackOffset",
    ),
)


class OffsetReset(NamedTuple):
    """A group, a topic, the time to go to, and whether to go forth as well as back."""

    group: str
    topic: str
    timestamp_ms: int
    force: bool


async def reset(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Let a group go on at a time, while its consumers run or while they do not."""
    text = given.text("timestamp")
    timestamp = TO_THE_END if text == "now" else parse_time(text)
    target = _offset_reset(given, timestamp)
    told = (
        f"[{target.group}], topic[{target.topic}], force[{word(target.force)}], "
        f"timestamp(string)[{text}], timestamp(long)[{timestamp}]\n"
    )
    try:
        # RocketMQ spec 4.11: members online commit the new offsets themselves.
        found = await _reset_online(admin, target, is_cpp="cplus" in given)
    except Refused as error:
        _only_offline(error)
        rows = await _reset_offline(admin, target)
        out.text(f"rollback consumer offset by specified consumerGroup{told}")
        _show_offline(rows, out)
        return
    out.text(f"rollback consumer offset by specified group{told}")
    _show_online(found, out)


async def skip(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Let a group go on at the end of all queues."""
    target = _offset_reset(given, TO_THE_END)
    try:
        _show_online(await _reset_online(admin, target), out)
    except Refused as error:
        _only_offline(error)
        _show_offline(await _reset_offline(admin, target), out)


def _offset_reset(given: ParsedOptions, timestamp_ms: int) -> OffsetReset:
    force = given.is_true("force", True)
    return OffsetReset(given.text("group"), given.text("topic"), timestamp_ms, force)


def _only_offline(error: Refused) -> None:
    # Where members are online they would commit over what the tool commits by itself.
    if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
        raise error


def _show_online(found: dict[MessageQueue, int], out: Output) -> None:
    out.head(RESET)
    for queue, offset in found.items():
        out.row(RESET, cut(queue.brokerName, 32), queue.queueId, offset)


def _show_offline(rows: list[tuple[Any, ...]], out: Output) -> None:
    out.head(ROLLED_BACK)
    for row in rows:
        out.row(ROLLED_BACK, *row)


async def _reset_online(
    admin: Admin, target: OffsetReset, *, is_cpp: bool = False
) -> dict[MessageQueue, int]:
    """Let the brokers tell the group's consumers where to go on."""
    found: dict[MessageQueue, int] = {}
    for address in (await admin.route(target.topic)).addresses:
        found |= await reset_members(
            admin,
            address,
            target.group,
            target.topic,
            target.timestamp_ms,
            force=target.force,
            cpp=is_cpp,
        )
    return found


async def _reset_offline(admin: Admin, target: OffsetReset) -> list[tuple[Any, ...]]:
    """Commit the offsets for a group that nobody is in; a row for each queue."""
    rows = []
    for broker in (await admin.route(target.topic)).brokers:
        address = broker.any_address()
        for queue, each in (await progress(admin, address, target.group, target.topic)).items():
            at = await offset_to_go_on_at(admin, address, queue, target.timestamp_ms)
            # RocketMQ spec 4.11: without force no queue goes ahead.
            goes = target.force or at <= each.consumer_offset
            if goes:
                await commit(admin, address, target.group, queue, at)
            rows.append(
                (
                    cut(broker.name, 32),
                    queue.queueId,
                    each.broker_offset,
                    each.consumer_offset,
                    at,
                    at if goes else each.consumer_offset,
                )
            )
    return rows


async def clone(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Set a group to where another one is."""
    source, target, topic = given.text("srcGroup"), given.text("destGroup"), given.text("topic")
    stats = await consume_stats(admin, source)
    # The group's other topics, which go with it as in Java, may be where this one is not.
    routes = await admin.route(RETRY + source), await admin.route(topic)
    addresses = {each.name: each.any_address() for route in routes for each in route.brokers}
    for queue, each in stats.queues.items():
        # A group that never committed in a queue leaves the other's offset there as it is.
        if each.consumer_offset >= 0:
            await commit(admin, addresses[queue.brokerName], target, queue, each.consumer_offset)
    out.say(
        f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]",
        srcGroup=source,
        destGroup=target,
        topic=topic,
    )

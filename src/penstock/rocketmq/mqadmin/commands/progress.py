"""The sub-command that shows how far groups are."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.consume_stats import ConsumeStats, consume_stats, queue_table
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.connections import sorted_connections
from penstock.rocketmq.mqadmin.java_text import cut, to_second
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol.membership import PULLS, PUSHES
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.versions import version_name

GROUPS: Final = Table(
    "groups",
    "%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d",
    "group count version type model tps diffTotal",
    ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"),
)
_TITLES: Final = (
    "#Topic",
    "#Broker Name",
    "#QID",
    "#Broker Offset",
    "#Consumer Offset",
)
QUEUES: Final = Table(
    "queues",
    "%-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s",
    "topic broker queue brokerOffset consumerOffset diff lastTime",
    (*_TITLES, "#Diff", "#LastTime"),
)
QUEUES_WITH_CLIENTS: Final = Table(
    "queues",
    "%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d  %s",
    "topic broker queue brokerOffset consumerOffset clientIp diff lastTime",
    (*_TITLES, "#Client IP", "#Diff", "#LastTime"),
)


async def progress(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The queues of one group, or all groups."""
    if "groupName" in given:
        group = given.text("groupName")
        stats = await consume_stats(admin, group)
        owners = await _owners(admin, group) if given.is_true("showClientIP") else None
        _show_queues(stats, owners, out)
        return
    out.head(GROUPS)
    for topic in await admin.topics():
        if topic.startswith(RETRY):
            await _show_group(admin, topic.removeprefix(RETRY), out)


def _show_queues(stats: ConsumeStats, owners: dict[MessageQueue, str] | None, out: Output) -> None:
    table = QUEUES if owners is None else QUEUES_WITH_CLIENTS
    out.head(table)
    for queue, each in stats.queues.items():
        owner = () if owners is None else (owners.get(queue, "N/A"),)
        out.row(
            table,
            cut(queue.topic, 64),
            cut(queue.brokerName, 32),
            queue.queueId,
            each.broker_offset,
            each.consumer_offset,
            *owner,
            each.lag,
            to_second(each.last_ms) if each.last_ms else Shown("N/A", 0),
        )
    out.text(f"\nConsume TPS: {stats.tps:.2f}\nDiff Total: {stats.lag}\n")
    out.fact("consumeTps", stats.tps)
    out.fact("diffTotal", stats.lag)


async def _owners(admin: Admin, group: str) -> dict[MessageQueue, str]:
    """The address of the client that has each queue, for the clients that report theirs."""
    found: dict[MessageQueue, str] = {}
    with suppress(PenstockError):
        for each in sorted_connections(await admin.connections(group)):
            client = str(each["clientId"])
            table = queue_table((await admin.running_info(group, client)).get("mqTable"))
            found |= dict.fromkeys(table, client.split("@")[0])
    return found


async def _show_group(admin: Admin, group: str, out: Output) -> None:
    stats = ConsumeStats()
    with suppress(PenstockError):
        stats = await consume_stats(admin, group)
    count, version, kind, model = 0, "OFFLINE", "", ""
    with suppress(PenstockError):
        found = await admin.connections(group)
        members = sorted_connections(found)
        count = len(members)
        version = version_name(min(int(each["version"]) for each in members))
        kind = "PULL" if found.get("consumeType") == PULLS else "PUSH"
        model = str(found.get("messageModel")) if found.get("consumeType") == PUSHES else ""
    out.row(GROUPS, cut(group, 64), count, version, kind, model, int(stats.tps), stats.lag)

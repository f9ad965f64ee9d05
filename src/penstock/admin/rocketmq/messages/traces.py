"""The trace of a message: the reports of clients that sent or handled it."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.messages.finding import by_id, by_key, the_one
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import consumers, groups_of
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.consume_stats import ConsumeStats, group_stats
from penstock.rocketmq.client.admin.messages import is_wanted
from penstock.rocketmq.client.admin.trace_entries import AFTER, BEFORE, ENDED, SENT, Entry, entries
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.membership import PULLS

CONSUMED: Final = "consumed"
FILTERED: Final = "filtered"
WAITS: Final = "waits"
UNKNOWN: Final = "unknown"
"""Members that pull say themselves what they have consumed, and need not tell brokers."""


async def tracks(servers: Servers, topic: str, message_id: str) -> dict[str, Any]:
    """A row for each group. Raises ApiError 404 where the message is not found."""
    warnings = Warnings()
    message = the_one(await by_id(servers, topic, message_id, warnings))
    broker = await servers.broker(message.broker)

    async def ask(group: str) -> dict[str, Any]:
        found = await consumers(servers, broker, group)
        stats = await group_stats(servers, broker.any_address(), group, topic)
        members = sorted(str(each["clientId"]) for each in found.get("connectionSet") or ())
        return {"group": group, "state": _state(message, found, stats), "members": members}

    groups = await groups_of(servers, topic, [broker], warnings)
    rows = [row for _, row in await gathered(groups, ask, warnings)]
    return {"groups": rows, "message": warnings.message}


def _state(message: Received, found: dict[str, Any], stats: ConsumeStats) -> str:
    """The state as upstream's tools work it out; unlike these, of groups without members too."""
    if found.get("consumeType") == PULLS:
        return UNKNOWN
    place = (message.broker, message.stored.queue)
    for queue, each in stats.queues.items():
        is_there = (queue.brokerName, queue.queueId) == place
        if is_there and each.consumer_offset > message.queue_offset:
            return CONSUMED if is_wanted(message.stored, found) else FILTERED
    return WAITS


async def trace(servers: Servers, message_id: str, topic: str = "") -> dict[str, Any]:
    """The sends, the ends of its transaction, and the tries to handle it, in their order.

    ``message_id`` is the one that the producer gave it, ``topic`` that of the traces. Nothing is
    found where no client has tracing on, or no broker the topic for it.
    """
    warnings = Warnings()
    try:
        told = await by_key(servers, topic or servers.hub.config.trace_topic, message_id, warnings)
    except ApiError:  # there is no such topic
        told = []
    found = [
        (each, message)
        for message in told
        for each in entries(message.body)
        if each.is_about(message_id)
    ]
    return {
        "sent": _in_order(_row(*each) for each in found if each[0].kind == SENT),
        "ended": _in_order(_row(*each) for each in found if each[0].kind == ENDED),
        "consumed": _in_order(_tries(found)),
        "message": warnings.message,
    }


def _tries(found: list[tuple[Entry, Received]]) -> list[dict[str, Any]]:
    """A row for each try, of what was told before and after; ``ok`` is null until it is over."""
    begun = {each.request_id: (each, by) for each, by in found if each.kind == BEFORE}
    over = {each.request_id: (each, by) for each, by in found if each.kind == AFTER}
    rows = []
    for request_id in begun | over:
        before, by = begun.get(request_id) or over[request_id]
        row = _row(before, by)
        if request_id in over:
            after, _ = over[request_id]
            group = after.group or before.group  # old clients tell it before alone
            row |= {"group": group, "cost_ms": after.cost_ms, "ok": after.is_ok}
        else:
            row |= {"cost_ms": None, "ok": None}
        rows.append(row)
    return rows


def _row(entry: Entry, by: Received) -> dict[str, Any]:
    return {
        "group": entry.group,
        "client": by.born_host.rpartition(":")[0],
        "time_ms": entry.time_ms,
        "cost_ms": entry.cost_ms,
        "ok": entry.is_ok,
        "store_host": entry.store_host,
        "retries": entry.retries,
        "state": entry.state,
    }


def _in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["time_ms"]))

"""The state of a message in each group that reads its topic, and the members that could get it."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.messages.finding import by_id, the_one
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import consumers, groups_of
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.consume_stats import ConsumeStats, group_stats
from penstock.rocketmq.client.admin.messages import is_wanted
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

"""Topics at a broker: the bounds of their queues, and who reads them."""

from __future__ import annotations

from typing import Any

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.client.admin.consume_stats import queue_table
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue


async def topic_stats(
    client: AdminClient, address: str, topic: str
) -> dict[MessageQueue, dict[str, Any]]:
    """By queue its ``minOffset``, ``maxOffset`` and ``lastUpdateTimestamp``, in their order."""
    code = RequestCode.GET_TOPIC_STATS_INFO
    found = await client.ask_json(address, code, {"topic": topic})
    return queue_table(found.get("offsetTable"))


async def groups_of(client: AdminClient, address: str, topic: str) -> list[str]:
    """The groups that consume a topic, as a broker knows them, sorted."""
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    found = await client.ask_json(address, code, {"topic": topic})
    return sorted(map(str, found.get("groupList") or ()))

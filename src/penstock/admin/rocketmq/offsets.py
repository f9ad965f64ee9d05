"""Groups that are set to a time: what that would change, and the change."""

from __future__ import annotations

from typing import Any

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import connections
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.offsets import (
    commit,
    offset_to_go_on_at,
    progress,
    reset_members,
)
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue


async def preview(servers: Servers, group: str, topic: str, time_ms: int) -> dict[str, Any]:
    """The queues of a topic: where the group is, and where it would be. Raises ApiError 404."""
    warnings = Warnings()
    brokers = [each for each in (await servers.route(topic)).brokers if each.master]

    async def ask(broker: Broker) -> list[dict[str, Any]]:
        return await _plan(servers, broker, group, topic, time_ms)

    told = await gathered(brokers, ask, warnings)
    rows = [row for _, found in told for row in found]
    return {"queues": rows, "message": warnings.message}


async def reset(servers: Servers, group: str, topic: str, time_ms: int) -> dict[str, Any]:
    """Set the group to a time on every broker: members are told, or else the offsets committed.

    Raises ApiError 404, and NoAnswerError when nothing could be changed.
    """
    warnings = Warnings()
    brokers = [each for each in (await servers.route(topic)).brokers if each.master]

    async def ask(broker: Broker) -> tuple[list[dict[str, Any]], bool]:
        plan = await _plan(servers, broker, group, topic, time_ms)
        if await _told_members(servers, broker, group, topic, time_ms):
            return plan, True
        for row in plan:
            queue = MessageQueue(row["broker"], row["queue"], topic)
            await commit(servers, broker.any_address(), group, queue, row["wanted"])
        return plan, False

    told = await gathered(brokers, ask, warnings)
    if not told:
        raise NoAnswerError("nothing was changed: " + "\n".join(warnings.errors))
    return {
        "queues": [row for _, (plan, _) in told for row in plan],
        "members_told": any(is_online for _, (_, is_online) in told),
        "message": warnings.message,
    }


async def _plan(
    servers: Servers, broker: Broker, group: str, topic: str, time_ms: int
) -> list[dict[str, Any]]:
    address = broker.any_address()
    rows = []
    for queue, each in (await progress(servers, address, group, topic)).items():
        wanted = await offset_to_go_on_at(servers, address, queue, time_ms)
        rows.append(
            {
                "topic": topic,
                "broker": queue.brokerName,
                "queue": queue.queueId,
                "end": each.broker_offset,
                "committed": each.consumer_offset,
                "wanted": wanted,
            }
        )
    return rows


async def _told_members(
    servers: Servers, broker: Broker, group: str, topic: str, time_ms: int
) -> bool:
    """Have the broker tell the group's members where to go on; False if it has no members.

    They are asked after first: of a group without an offset in some queue brokers say that there
    is no such group, before they look for members.
    """
    if not await connections(servers, broker, group):
        return False
    try:
        await reset_members(servers, broker.any_address(), group, topic, time_ms)
    except Refused as error:
        # The last member may have left meanwhile.
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return False
        raise
    return True

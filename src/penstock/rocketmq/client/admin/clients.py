"""Producers and consumers that are connected to a broker."""

from __future__ import annotations

from typing import Any

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol.codes import RequestCode


async def consumers(client: AdminClient, address: str, group: str) -> dict[str, Any]:
    """A group's ``connectionSet`` and ``subscriptionTable``. Raises Refused if nobody is there."""
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    return await client.ask_json(address, code, {"consumerGroup": group})


async def running_info(
    client: AdminClient, address: str, group: str, member: str, *, jstack: bool = False
) -> dict[str, Any]:
    """A consumer's own account of itself, asked for through a broker that it is connected to."""
    fields = {"consumerGroup": group, "clientId": member, "jstackEnable": str(jstack).lower()}
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    return await client.ask_json(address, code, fields, seconds=client.long_timeout_s)


async def producers(client: AdminClient, address: str) -> dict[str, Any]:
    """All producers of a broker: a list by group."""
    found = await client.ask_json(address, RequestCode.GET_ALL_PRODUCER_INFO)
    return dict(found.get("data") or {})


async def producers_of(client: AdminClient, address: str, group: str) -> dict[str, Any]:
    """The ``connectionSet`` of a group of producers."""
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    return await client.ask_json(address, code, {"producerGroup": group})

"""Brokers: their figures."""

from __future__ import annotations

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol.codes import RequestCode


async def runtime_info(client: AdminClient, address: str) -> dict[str, str]:
    """The figures of a broker."""
    found = await client.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return {str(name): str(value) for name, value in (found.get("table") or {}).items()}

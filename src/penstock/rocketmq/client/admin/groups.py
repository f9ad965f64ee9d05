"""Consumer groups at a broker: their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode


async def group_configs(client: AdminClient, address: str) -> dict[str, Any]:
    """The ``subscriptionGroupTable`` of a broker, settings by group, and its ``dataVersion``."""
    return await client.ask_json(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)


async def put_group(client: AdminClient, address: str, config: Mapping[str, Any]) -> None:
    """Make a group on a broker, or change it."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    await client.ask(address, code, body=fastjson.dumps(config))


async def delete_group(
    client: AdminClient, address: str, group: str, *, with_offsets: bool
) -> None:
    """Delete a group on a broker."""
    does = str(with_offsets).lower()
    # 4.9 has the first name of the field, 5.x the second.
    fields = {"groupName": group, "removeOffset": does, "cleanOffset": does}
    await client.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

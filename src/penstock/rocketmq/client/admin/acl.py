"""Access rules of a broker: its accounts, and the addresses that it trusts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command


async def acl_config(client: AdminClient, address: str) -> dict[str, Any]:
    """The accounts (``plainAccessConfigs``) and trusted addresses (``globalWhiteAddrs``).

    Brokers of some versions have secrets in it.
    """
    return await client.ask_json(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)


async def acl_version(client: AdminClient, address: str) -> Command:
    """The answer whose fields are the broker's names and the versions of its files."""
    return await client.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)


async def put_account(client: AdminClient, address: str, account: Mapping[str, str]) -> None:
    """Make an account, or change it."""
    await client.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)


async def delete_account(client: AdminClient, address: str, access_key: str) -> None:
    """Delete an account."""
    await client.ask(address, RequestCode.DELETE_ACL_CONFIG, {"accessKey": access_key})


async def set_trusted(client: AdminClient, address: str, trusted: str, file: str = "") -> None:
    """Set the addresses from which everything is allowed, in one of the broker's files."""
    fields = {"globalWhiteAddrs": trusted} | ({"aclFileFullPath": file} if file else {})
    await client.ask(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)

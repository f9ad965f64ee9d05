"""Accounts of the brokers' access rules. Secrets are never read."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from penstock.admin.rocketmq.servers import Servers
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.mqadmin.topology import Broker
from penstock.rocketmq.protocol.codes import RequestCode

_SHOWN: Final = {
    "account": "accessKey",
    "from": "whiteRemoteAddress",
    "admin": "admin",
    "topic_perm": "defaultTopicPerm",
    "group_perm": "defaultGroupPerm",
    "topics": "topicPerms",
    "groups": "groupPerms",
}
"""All that is handed on: brokers of some versions tell secrets as well."""


async def accounts(servers: Servers) -> dict[str, Any]:
    """The accounts and trusted addresses of each broker; null, and why, where it does not tell."""
    masters = [each for each in await servers.brokers() if each.master]
    return {"brokers": await asyncio.gather(*(_of(servers, each) for each in masters))}


async def _of(servers: Servers, broker: Broker) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker.name, "accounts": None, "trusted": [], "reason": ""}
    code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    try:
        found = await servers.ask_json(broker.any_address(), code)
    except Refused as error:
        return row | {"reason": error.words}
    except ClientError as error:  # Java's brokers without access rules do not answer at all
        return row | {"reason": str(error)}
    return row | {
        "accounts": [
            {name: each.get(key) for name, key in _SHOWN.items()}
            for each in found.get("plainAccessConfigs") or ()
        ],
        "trusted": list(map(str, found.get("globalWhiteAddrs") or ())),
    }

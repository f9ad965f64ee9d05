"""Settings and accounts of the brokers, as each tells them. Secrets are not handed on."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from penstock.admin.rocketmq.servers import Servers
from penstock.rocketmq.client.admin.acl import acl_config
from penstock.rocketmq.client.admin.brokers import broker_config
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.errors import ClientError

_SECRET: Final = re.compile(
    "secret|password|credential|accesskey|authenticationuser", re.IGNORECASE
)
"""In names of settings: those of Java's 5.x have accounts in the values of some."""
HIDDEN: Final = "(not shown)"
_ACCOUNT: Final = {
    "account": "accessKey",
    "from": "whiteRemoteAddress",
    "admin": "admin",
    "topic_perm": "defaultTopicPerm",
    "group_perm": "defaultGroupPerm",
    "topics": "topicPerms",
    "groups": "groupPerms",
}
"""All that is handed on: brokers of some versions tell secrets as well."""


async def configuration(servers: Servers) -> dict[str, Any]:
    """By broker, replicas too, its settings by name; null, and why, where it does not tell."""
    asking = [
        _settings_of(servers, each, address)
        for each in await servers.brokers()
        for address in each.addresses.values()
    ]
    return {"brokers": await asyncio.gather(*asking)}


async def _settings_of(servers: Servers, broker: Broker, address: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "broker": broker.name,
        "address": address,
        "settings": None,
        "reason": "",
    }
    try:
        found = await broker_config(servers, address)
    except Refused as error:
        return row | {"reason": error.words}
    except ClientError as error:
        return row | {"reason": str(error)}
    return row | {
        "settings": {
            name: HIDDEN if value and _SECRET.search(name) else value
            for name, value in sorted(found.items())
        }
    }


async def accounts(servers: Servers) -> dict[str, Any]:
    """By broker, its accounts and trusted addresses; null, and why, where it does not tell."""
    masters = [each for each in await servers.brokers() if each.master]
    return {"brokers": await asyncio.gather(*(_accounts_of(servers, each) for each in masters))}


async def _accounts_of(servers: Servers, broker: Broker) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker.name, "accounts": None, "trusted": [], "reason": ""}
    try:
        found = await acl_config(servers, broker.any_address())
    except Refused as error:
        return row | {"reason": error.words}
    except ClientError as error:  # Java's brokers without access rules do not answer at all
        return row | {"reason": str(error)}
    return row | {
        "accounts": [
            {name: each.get(key) for name, key in _ACCOUNT.items()}
            for each in found.get("plainAccessConfigs") or ()
        ],
        "trusted": list(map(str, found.get("globalWhiteAddrs") or ())),
    }

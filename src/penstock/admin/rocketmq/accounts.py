"""Accounts of the brokers' access rules. Secrets are never read."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.cluster.fanout import Warnings
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
    """By broker its accounts and trusted addresses; null, and why, where it does not tell."""
    warnings = Warnings()
    masters = [each for each in await servers.brokers() if each.master]

    async def ask(broker: Broker) -> dict[str, Any]:
        return await _of(servers, broker)

    rows = [row for _, row in await gathered(masters, ask, warnings)]
    return {"brokers": rows, "message": warnings.message}


async def _of(servers: Servers, broker: Broker) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": broker.name, "accounts": None, "trusted": [], "reason": ""}
    code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    try:
        found = await servers.ask_json(broker.any_address(), code)
    except Refused as error:
        return row | {"reason": error.words}
    return row | {
        "accounts": [
            {name: each.get(key) for name, key in _SHOWN.items()}
            for each in found.get("plainAccessConfigs") or ()
        ],
        "trusted": list(map(str, found.get("globalWhiteAddrs") or ())),
    }

"""Settings of consumer groups, by the names that they have here and for brokers."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.groups import group_configs
from penstock.rocketmq.client.admin.topology import Broker

SETTINGS: Final[dict[str, tuple[str, Any]]] = {
    "consumes": ("consumeEnable", True),
    "broadcasts": ("consumeBroadcastEnable", True),
    "from_min": ("consumeFromMinEnable", True),
    "retries": ("retryMaxTimes", 16),
    "retry_queues": ("retryQueueNums", 1),
    "broker_id": ("brokerId", 0),
    "slow_broker_id": ("whichBrokerWhenConsumeSlowly", 1),
    "notifies": ("notifyConsumerIdsChangedEnable", True),
}
"""The settings of a group: their names for brokers, and what a new group has."""


async def known_settings(
    servers: Servers, brokers: list[Broker], group: str, warnings: Warnings
) -> dict[str, dict[str, Any]]:
    """The settings of a group by broker; empty where it does not know the group."""

    async def ask(broker: Broker) -> dict[str, Any]:
        configs = await all_settings(servers, broker)
        return dict(configs.get(group) or {})

    return {each.name: config for each, config in await gathered(brokers, ask, warnings)}


async def all_settings(servers: Servers, broker: Broker) -> dict[str, dict[str, Any]]:
    """The settings of a broker by group."""
    found = await group_configs(servers, broker.any_address())
    return dict(found.get("subscriptionGroupTable") or {})


def shown(config: dict[str, Any]) -> dict[str, Any]:
    """A broker's settings of a group, by the names of the API."""
    return {name: config.get(key, usual) for name, (key, usual) in SETTINGS.items()}

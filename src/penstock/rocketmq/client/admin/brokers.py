"""Brokers: their figures, their settings, and what they clean up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from penstock.core.settings import java_properties
from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.protocol.codes import RequestCode


class Cleaning(Enum):
    """The things that a broker can do at once instead of when it is their time."""

    EXPIRED_QUEUES = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
    """Forget the parts of consume queues whose messages are gone."""
    EXPIRED_MESSAGES = RequestCode.DELETE_EXPIRED_COMMITLOG
    """Delete the messages that are older than the broker keeps them."""
    UNUSED_TOPICS = RequestCode.CLEAN_UNUSED_TOPIC
    """Delete the queues of topics that do not exist any more."""


async def runtime_info(client: AdminClient, address: str) -> dict[str, str]:
    """The figures of a broker."""
    found = await client.ask_json(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return {str(name): str(value) for name, value in (found.get("table") or {}).items()}


async def rates(client: AdminClient, address: str, name: str, key: str) -> tuple[float, int]:
    """Messages a second in the last minute, and in the last day. Raises Refused."""
    fields = {"statsName": name, "statsKey": key}
    found = await client.ask_json(address, RequestCode.VIEW_BROKER_STATS_DATA, fields)
    spans: list[dict[str, Any]] = [found[f"stats{span}"] for span in ("Day", "Hour", "Minute")]
    # A day that has not been summed up yet is what its last hour or minute was.
    total = next((int(each["sum"]) for each in spans if each.get("sum")), 0)
    return float(spans[-1].get("tps") or 0.0), total


async def broker_config(client: AdminClient, address: str) -> dict[str, str]:
    """The settings of a broker."""
    answer = await client.ask(address, RequestCode.GET_BROKER_CONFIG)
    return java_properties.loads(answer.body.decode("utf-8", "replace"))


async def set_broker_config(client: AdminClient, address: str, changed: Mapping[str, str]) -> None:
    """Change settings of a broker."""
    body = java_properties.dumps(changed).encode()
    await client.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


async def clean(client: AdminClient, address: str, what: Cleaning) -> None:
    """Have a broker clean up at once."""
    await client.ask(address, what.value)

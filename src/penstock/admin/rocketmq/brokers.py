"""Brokers and name servers with their figures."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.verdicts import of_disk, of_server
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin.brokers import runtime_info
from penstock.rocketmq.client.admin.topology import Replica


async def cluster(servers: Servers) -> dict[str, Any]:
    """The name servers and all brokers."""
    warnings = Warnings()
    replicas = (await servers.clusters()).replicas()

    async def ask(replica: Replica) -> dict[str, str]:
        return await runtime_info(servers, replica.address)

    told = dict(await gathered(replicas, ask, warnings))
    return {
        "name_servers": await _name_servers(servers, warnings),
        "brokers": [_row(each, told.get(each)) for each in replicas],
        "message": warnings.message,
    }


async def _name_servers(servers: Servers, warnings: Warnings) -> list[dict[str, Any]]:
    """Each name server with the number of brokers and topics that it knows."""

    async def ask(address: str) -> tuple[int, int]:
        brokers = (await servers.clusters(address)).brokers
        return len(brokers), len(await servers.topics(address))

    told = dict(await gathered(servers.addresses, ask, warnings))
    return [
        {
            "address": address,
            "answers": address in told,
            "verdicts": of_server(answers=address in told),
        }
        | dict(zip(("brokers", "topics"), told.get(address, (None, None)), strict=True))
        for address in servers.addresses
    ]


def _row(replica: Replica, figures: dict[str, str] | None) -> dict[str, Any]:
    known = figures or {}
    disk = _number(known.get("commitLogDiskRatio"))
    return {
        "cluster": replica.cluster,
        "broker": replica.broker,
        "id": replica.number,
        "address": replica.address,
        "answers": figures is not None,
        "version": known.get("brokerVersionDesc", ""),
        "in": _first(known, "putTps"),
        "out": _first(
            known, "getTransferedTps" if "getTransferedTps" in known else "getTransferredTps"
        ),
        "in_today": _today(known, "msgPutTotal"),
        "out_today": _today(known, "msgGetTotal"),
        "disk": disk,
        "verdicts": [*of_server(answers=figures is not None), *of_disk(disk)],
        "started_ms": _number(known.get("bootTimestamp")),
        "oldest_ms": _number(known.get("earliestMessageTimeStamp")),
        "waiting": _number(known.get("sendThreadPoolQueueSize")),
        "figures": dict(sorted(known.items())),
    }


def _first(figures: dict[str, str], name: str) -> float | None:
    """The rate over the last ten seconds, of the three that a broker gives."""
    return _number((figures.get(name) or "").partition(" ")[0])


def _today(figures: dict[str, str], name: str) -> float | None:
    now, morning = (_number(figures.get(f"{name}Today{when}")) for when in ("Now", "Morning"))
    return None if now is None or morning is None else now - morning


def _number(text: str | None) -> float | None:
    with suppress(ValueError):
        number = float(text or "")
        return number if math.isfinite(number) else None
    return None

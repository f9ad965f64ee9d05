"""Groups, brokers and name servers of RocketMQ that an operator should look at."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.consumer_groups import all_groups
from penstock.admin.rocketmq.group_rates import GroupRates
from penstock.admin.rocketmq.names import NORMAL, kind_of
from penstock.admin.rocketmq.other_brokers import OtherBrokers
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.verdicts.rule import Verdict
from penstock.rocketmq.client.admin.topology import MASTER
from penstock.rocketmq.client.names import DEAD


async def attention(servers: Servers, rates: GroupRates, others: OtherBrokers) -> dict[str, Any]:
    """All verdicts, each with the ``page`` that shows more and the ``names`` that lead there; those
    on a group with the ``topics`` that it reads.

    Beside them the groups that were judged, their lag, and the number of topics, without brokers'
    own. ``beside`` is what is there beside nsqadmin's nodes: names of brokers and topics, and what
    goes in and out a second.
    """
    groups, whole, nodes = await asyncio.gather(
        all_groups(servers, rates), cluster(servers), others.are_nodes()
    )
    own = {name for row in whole["brokers"] for name in (row["cluster"], row["broker"])}
    items = [
        *(_item(each, *_place_of(row["group"], each)) | {"topics": _own_topics(row["topics"])}
          for row in groups["groups"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["broker"])
          for row in whole["brokers"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["address"])
          for row in whole["name_servers"] for each in row["verdicts"]),
    ]  # fmt: skip
    topics = [each for each in await servers.topics() if kind_of(each, own) == NORMAL]
    brokers = [row for row in whole["brokers"] if row["address"] not in nodes]
    masters = [row for row in brokers if row["id"] == MASTER]
    return {
        "items": items,
        "topics": len(topics),
        "beside": {
            "brokers": sorted({row["broker"] for row in brokers}),
            "topics": topics if brokers else [],
            "in": sum(row["in"] or 0.0 for row in masters),
            "out": sum(row["out"] or 0.0 for row in masters),
        },
        "groups": [row["group"] for row in groups["groups"]],
        "lag": sum(row["lag"] for row in groups["groups"]),
        "message": groups["message"],
    }


def _own_topics(topics: list[str]) -> list[str]:
    """The topics of a group without its retries, which every group has."""
    return [each for each in topics if kind_of(each) == NORMAL]


def _place_of(group: str, verdict: Verdict) -> tuple[str, str]:
    if verdict["kind"] == "letters":
        return "rockettopic", DEAD + group
    return "rocketgroup", group


def _item(verdict: Verdict, page: str, name: str) -> Verdict:
    return {**verdict, "page": page, "names": [name]}

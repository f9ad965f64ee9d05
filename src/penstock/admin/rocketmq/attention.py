"""What an operator should look at among RocketMQ's groups, brokers and name servers."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.groups import all_groups
from penstock.admin.rocketmq.paces import Paces
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.rocketmq.verdicts import Verdict
from penstock.rocketmq.client.names import DEAD


async def attention(servers: Servers, paces: Paces) -> dict[str, Any]:
    """All verdicts, each with the `page` that shows more and the `names` that lead there."""
    groups, whole = await asyncio.gather(all_groups(servers, paces), cluster(servers))
    items = [
        *(_item(each, *_place_of(row["group"], each))
          for row in groups["groups"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["broker"])
          for row in whole["brokers"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["address"])
          for row in whole["name_servers"] for each in row["verdicts"]),
    ]  # fmt: skip
    return {"items": items, "message": groups["message"]}


def _place_of(group: str, verdict: Verdict) -> tuple[str, str]:
    if verdict["kind"] == "letters":
        return "rockettopic", DEAD + group
    return "rocketgroup", group


def _item(verdict: Verdict, page: str, name: str) -> Verdict:
    return {**verdict, "page": page, "names": [name]}

"""Groups, brokers and name servers of RocketMQ that an operator should look at."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.groups import all_groups
from penstock.admin.rocketmq.names import NORMAL, kind_of
from penstock.admin.rocketmq.paces import Paces
from penstock.admin.rocketmq.servers import Servers
from penstock.admin.verdicts.rule import Verdict
from penstock.rocketmq.client.names import DEAD


async def attention(servers: Servers, paces: Paces) -> dict[str, Any]:
    """All verdicts, each with the ``page`` that shows more and the ``names`` that lead there.

    Beside them the groups that were judged, their lag, and the number of topics, without brokers'
    own.
    """
    groups, whole = await asyncio.gather(all_groups(servers, paces), cluster(servers))
    own = {name for row in whole["brokers"] for name in (row["cluster"], row["broker"])}
    items = [
        *(_item(each, *_place_of(row["group"], each))
          for row in groups["groups"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["broker"])
          for row in whole["brokers"] for each in row["verdicts"]),
        *(_item(each, "rocketbroker", row["address"])
          for row in whole["name_servers"] for each in row["verdicts"]),
    ]  # fmt: skip
    return {
        "items": items,
        "topics": sum(kind_of(each, own) == NORMAL for each in await servers.topics()),
        "groups": [row["group"] for row in groups["groups"]],
        "lag": sum(row["lag"] for row in groups["groups"]),
        "message": groups["message"],
    }


def _place_of(group: str, verdict: Verdict) -> tuple[str, str]:
    if verdict["kind"] == "letters":
        return "rockettopic", DEAD + group
    return "rocketgroup", group


def _item(verdict: Verdict, page: str, name: str) -> Verdict:
    return {**verdict, "page": page, "names": [name]}

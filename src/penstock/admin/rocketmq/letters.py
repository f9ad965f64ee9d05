"""Dead letters of groups, counted: brokers keep them in a topic of each group."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import sums_of
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.names import DEAD
from penstock.rocketmq.mqadmin.topology import Broker

LETTERS_MAX: Final = 300
"""Groups whose letters are counted: one request to each broker."""


class Letters(NamedTuple):
    """The number that is kept, and when the newest was stored, in ms since 1970."""

    kept: int = 0
    last_ms: int = 0


async def all_letters(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> dict[str, Letters]:
    """The letters by group; of LETTERS_MAX groups."""
    topics = [each for each in await servers.topics() if each.startswith(DEAD)]

    async def ask(topic: str) -> Letters:
        sums = await sums_of(servers, brokers, topic)
        return Letters(sums["kept"], sums["last_ms"])

    told = await gathered(topics[:LETTERS_MAX], ask, warnings)
    return {topic.removeprefix(DEAD): found for topic, found in told}

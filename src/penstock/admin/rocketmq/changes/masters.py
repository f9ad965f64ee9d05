"""Changes on the masters of brokers: all of them are told, and what one refuses is a warning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.topology import Broker


async def chosen_masters(servers: Servers, names: Collection[str]) -> list[Broker]:
    """The brokers of these names, or all where there are no names. Raises ApiError 404."""
    known = {each.name: each for each in await servers.brokers() if each.master}
    if not names:
        return list(known.values())
    if not known.keys() >= set(names):
        raise ApiError(404, "BROKER_NOT_FOUND")
    return [known[name] for name in sorted(set(names))]


async def told_all(
    brokers: list[Broker], tell: Callable[[Broker], Awaitable[object]], warnings: Warnings
) -> None:
    """Have each broker do something. Raises NoAnswerError when none of them has done it."""
    refusals = Warnings()
    if not await gathered(brokers, tell, refusals):
        reasons = "\n".join(refusals.errors) or "there is no master"
        raise NoAnswerError(f"nothing was changed: {reasons}")
    warnings.add(refusals.errors)

"""/api/copies: nodes with second copies, and these copies. Ours, not upstream's.

A standby registers at no nsqlookupd. Registered nodes name it: a primary its followers and its
predecessor, a follower its primary. nsqadmin remembers a copy for an hour after it last saw it, so
that one that is gone is missed.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.admin.read_api import answering
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.replication_status import (
    COPY_GONE,
    FOLLOWER,
    TARGET,
    TROUBLES,
    FollowerStatus,
    Replication,
    unasked_nodes,
)
from penstock.cluster.upstream_errors import RefusedError
from penstock.core.clock import Clock
from penstock.core.units import SECOND
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import Query

REMEMBERED_NS: Final = 3600 * SECOND
REMEMBERED_MAX: Final = 1000


class Copy(Struct):
    """A node with copies, or one of these. None is what is not known, or not of its role.

    ``followers`` are addresses, ``asked_seconds_ago`` is the primary's word on a follower.
    """

    node: str
    answers: bool
    role: str
    epoch: int | None = None
    primary: str = ""
    followers: list[str] = []
    lag_messages: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    max_lag: str = ""
    needs_force: str = ""
    lease_seconds: float | None = None
    """The time for which a primary still holds its lease; None where it needs none."""
    lease_members: list[str] = []
    asked_seconds_ago: float | None = None
    error: str | None = None
    replicas_acked: int = 0
    replicas_in_force: int = 0
    replicas_missing: str = ""
    messages_waiting: int = 0
    only_here: dict[str, int] = {}
    verdicts: list[dict[str, Any]] = []


class CopiesApi:
    """The one endpoint: all of them, or those of the node that is named."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._seen: dict[str, int] = {}
        """The time at which each address was last seen to be one of several."""

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/copies", answering(self._answer))

    async def _answer(self, request: Request) -> Any:
        wanted, warnings = Query.parse(request.query).get("node") or "", Warnings()
        producers = await self._cluster.producers(warnings, with_topics=False)
        asked = dict.fromkeys([each.http_address for each in producers] + self._remembered())
        found = await self._ask(list(asked))
        more = unasked_nodes(found.items(), asked)
        found |= await self._ask(more)
        rows = rows_of(found, [*asked, *more], set(self._seen))
        self._remember(found)
        rows = [each for each in rows if wanted in ("", each.node, each.primary, *each.followers)]
        return {"copies": rows, "message": warnings.message}

    async def _ask(self, addresses: list[str]) -> dict[str, Replication]:
        """The answers of those that have copies; the pages say elsewhere who is silent."""
        found = await try_all(addresses, self._replication)
        return {name: each for name, each in found.answers if each is not None and each.has_copies}

    async def _replication(self, address: str) -> Replication | None:
        """None of Go's nsqd, and of an address that cannot be one. Raises UpstreamError."""
        try:
            return await self._cluster.http.get(address, TARGET, Replication)
        except (RefusedError, ValueError):
            return None

    def _remembered(self) -> list[str]:
        least = self._clock.monotonic_ns() - REMEMBERED_NS
        self._seen = {name: at for name, at in self._seen.items() if at >= least}
        return list(self._seen)

    def _remember(self, found: dict[str, Replication]) -> None:
        now = self._clock.monotonic_ns()
        present = [
            *found,
            *(each.address for status in found.values() for each in status.followers),
        ]
        for name in present:
            # To the end of the dict, so that the first is the one that was not seen for longest.
            self._seen.pop(name, None)
            self._seen[name] = now
        while len(self._seen) > REMEMBERED_MAX:
            del self._seen[next(iter(self._seen))]


def rows_of(found: dict[str, Replication], asked: list[str], seen: set[str]) -> list[Copy]:
    """A row for each node that answers, and for each that is named or was seen and does not.

    A primary comes before its followers.
    """
    followers = {
        each.address: (name, each) for name, status in found.items() for each in status.followers
    }
    rows = [_row(name, status, followers.get(name)) for name, status in found.items()]
    silent = [name for name in asked if name not in found and (name in followers or name in seen)]
    rows += [_silent_row(name, followers.get(name)) for name in silent]
    return sorted(rows, key=lambda each: (each.primary or each.node, each.primary != "", each.node))


def _row(name: str, status: Replication, seen: tuple[str, FollowerStatus] | None) -> Copy:
    row = Copy(
        name,
        True,
        status.role,
        status.epoch,
        status.primary,
        followers=[each.address for each in status.followers],
        replicas_acked=status.replicas_acked,
        replicas_in_force=status.replicas_in_force,
        replicas_missing=status.replicas_missing,
        messages_waiting=status.messages_waiting,
        only_here=status.only_here,
        verdicts=_verdicts(status.trouble),
    )
    if status.lease is not None:
        row.lease_seconds = status.lease.seconds_left
        row.lease_members = status.lease.members
    if status.role == FOLLOWER:
        row.max_lag, row.needs_force = status.max_lag, status.needs_force
        row.lag_messages, row.lag_bytes = status.lag_messages, status.lag_bytes
        row.lag_seconds, row.error = status.lag_seconds, status.error
        row.asked_seconds_ago = seen[1].asked_seconds_ago if seen else None
    return row


def _silent_row(name: str, seen: tuple[str, FollowerStatus] | None) -> Copy:
    trouble = seen[1].trouble if seen else COPY_GONE
    row = Copy(name, False, FOLLOWER if seen else "", verdicts=_verdicts(trouble))
    if seen is not None:
        row.primary, status = seen
        row.lag_messages, row.lag_bytes = status.lag_messages, status.lag_bytes
        row.asked_seconds_ago = status.asked_seconds_ago
    return row


def _verdicts(trouble: str) -> list[dict[str, Any]]:
    return [{"kind": trouble, "level": TROUBLES[trouble]}] if trouble else []

"""A scripted cluster whose first node is one of ours and whose second is Go's nsqd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cluster.producers import Producer
from penstock.net.address import split_host_port
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.admin.conftest import FakeDaemon, Running, StartAdmin, Two
from tests.unit.cli.nodes_at_work import ask, kill_letters

BODIES = [b"letter %d" % number for number in range(6)]


def message(offset: int, **more: Any) -> dict[str, Any]:
    """A message as nsqd's peek has it."""
    return {"offset": offset, "id": f"{256 + offset:016x}", "timestamp": 10**18, "state": "waiting",
            "attempts": 0, "size": 1, "body": "x", **more}  # fmt: skip


class Site:
    """An nsqadmin over them; `node` and `go` are the addresses."""

    def __init__(self, two: Two, running: Running) -> None:
        self.lookupd = two.lookupd
        self.ours, self.theirs = two.nsqds
        self.node, self.go = self.ours.address, self.theirs.address
        self.running = running

    def asked(self, daemon: FakeDaemon | None = None) -> list[str]:
        """What the first node was asked, beside what nodes are asked anyway."""
        return [each for each in (daemon or self.ours).asked if "/stats" not in each]

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON."""
        status, body = await self.running.ask("GET", path)
        return status, json.loads(body)

    async def post(self, path: str, body: Any, user: str = "alice") -> tuple[int, Any]:
        """Status and JSON."""
        status, text = await self.running.ask("POST", path, body, X_Forwarded_User=user)
        return status, json.loads(text)


@pytest.fixture
async def site(two: Two, admin: StartAdmin) -> Site:
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), admin_users=("alice",))
    return Site(two, running)


@pytest.fixture
def dead() -> Iterator[Daemon]:
    """A real node with six letters of `orders`/`bill` in `orders.dead`."""
    with run_nsqd() as nsqd:
        kill_letters(nsqd, "orders", "bill", BODIES)
        yield nsqd


def producer_of(nsqd: Daemon) -> Producer:
    """As nsqlookupd tells of it."""
    host, port = split_host_port(nsqd.http)
    return Producer(broadcast_address=host, tcp_port=nsqd.tcp_port, http_port=port)


def letters_in(nsqd: Daemon, topic: str) -> list[dict[str, Any]]:
    """All that its log holds."""
    found: list[dict[str, Any]] = ask(nsqd, "GET", f"/topic/peek?topic={topic}")["messages"]
    return found

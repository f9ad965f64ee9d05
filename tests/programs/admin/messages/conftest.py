"""A scripted cluster whose first node is one of ours and whose second is Go's nsqd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from penstock.admin.messages import resend
from penstock.admin.messages.search import replay
from penstock.admin.messages.search.walk import Budget
from penstock.cluster.producers import Producer
from penstock.net.address import split_host_port
from penstock.nsq.client.config import Config
from penstock.nsq.dead_letters import resend as letter_channel
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.admin.conftest import UPSTREAM_S, FakeDaemon, Running, StartAdmin, StartFake, Two
from tests.unit.cli.nodes_at_work import ask, kill_letters, publish

BODIES = [b"letter %d" % number for number in range(6)]
LONG_S = 600.0


@pytest.fixture(autouse=True)
def _no_limit_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one request does in a limited time it does whole, also on a busy machine; tests of a
    limit set it themselves.
    """
    monkeypatch.setattr(replay, "SECONDS", LONG_S)
    monkeypatch.setattr(replay, "CHOSEN_SECONDS", LONG_S)
    monkeypatch.setattr(resend, "RESEND_S", LONG_S)
    monkeypatch.setattr(letter_channel, "WAIT_S", UPSTREAM_S)
    monkeypatch.setattr(letter_channel, "Config", partial(Config, dial_timeout=UPSTREAM_S))
    budget = Budget(0)._replace(seconds=LONG_S)
    monkeypatch.setattr(Budget.__new__, "__defaults__", budget[1:])


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


class Pair:
    """Two real nodes, one that is scripted as Go's, and an nsqadmin over the three.

    The topic `t` has 40 messages, `m0` to `m39`, published one by one to the two in turn.
    """

    def __init__(self, nodes: list[Daemon], go: FakeDaemon, running: Running) -> None:
        self.nodes = nodes
        self.names = [each.http for each in nodes]
        self.go = go
        self.running = running

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON."""
        status, body = await self.running.ask("GET", path)
        return status, json.loads(body)

    async def post(self, path: str, body: Any, user: str = "alice") -> tuple[int, Any]:
        """Status and JSON."""
        status, text = await self.running.ask("POST", path, body, X_Forwarded_User=user)
        return status, json.loads(text)

    def make(self, topic: str, node: int) -> None:
        ask(self.nodes[node], "POST", f"/topic/create?topic={topic}")

    def channel(self, topic: str, channel: str, node: int, where: str = "") -> None:
        target = f"/channel/create?topic={topic}&channel={channel}{where}"
        ask(self.nodes[node], "POST", target)

    def configure(self, topic: str, settings: dict[str, int], node: int) -> None:
        body = json.dumps(settings).encode()
        ask(self.nodes[node], "POST", f"/topic/config?topic={topic}", body)

    def publish(self, topic: str, body: bytes, node: int) -> None:
        publish(self.nodes[node], topic, [body])

    def bodies(self, topic: str, node: int) -> list[str]:
        """What a node's log of a topic holds."""
        return [each["body"] for each in letters_in(self.nodes[node], topic)]


@pytest.fixture(scope="module")
def real_nodes() -> Iterator[list[Daemon]]:
    with run_nsqd() as one, run_nsqd() as other:
        for number in range(40):
            publish((one, other)[number % 2], "t", [b"m%d" % number])
        yield [one, other]


@pytest.fixture
async def pair(real_nodes: list[Daemon], fake: StartFake, admin: StartAdmin) -> Pair:
    go = await fake()
    host, _, port = go.address.rpartition(":")
    go.answers = {
        "/info": {"version": "1.3.0", "broadcast_address": host, "hostname": "h",
                  "tcp_port": int(port), "http_port": int(port)},
        "/stats": {"version": "1.3.0", "topics": [{"topic_name": "t", "channels": []}]},
    }  # fmt: skip
    addresses = (*(each.http for each in real_nodes), go.address)
    return Pair(real_nodes, go, await admin(nsqd_http_addresses=addresses, admin_users=("alice",)))

"""Daemons that answer what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from penstock.cluster.cluster import Addresses, Cluster
from penstock.cluster.exchange import Timeouts
from penstock.cluster.http_client import HttpClient
from penstock.core.clock import SYSTEM_CLOCK
from penstock.net import tcp
from penstock.net.http.server.service import DeferredResponse, HttpServer, Request, Response, Router
from penstock.net.http.server.v1_api import error_response, json_response

TIMEOUT_S = 120.0
UPSTREAM_S = 60.0
"""Time for a daemon to answer who is tested, where that is not what the test is about."""


class FakeDaemon:
    """An nsqd or nsqlookupd; `answers` are by path, or by path and query where that is there."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.address = ""
        self.listener: tcp.Listener
        self.server: HttpServer

    def answer(self, asked: Request) -> Response | DeferredResponse:
        target = asked.head.target
        self.asked.append(f"{asked.method} {target}")
        self.bodies.append(asked.body)
        found = self.answers.get(target, self.answers.get(asked.path))
        if found is None:
            return error_response(404, "NOT_FOUND")
        if isinstance(found, Response | DeferredResponse):
            return found
        return json_response(found)

    def told(self, *topics: str, hostname: str = "h", version: str = "1.3.0") -> dict[str, Any]:
        """How an nsqlookupd tells of this node."""
        host, _, port = self.address.rpartition(":")
        return {
            "remote_address": "127.0.0.1:9",
            "hostname": hostname,
            "broadcast_address": host,
            "tcp_port": int(port),
            "http_port": int(port),
            "version": version,
            "topics": list(topics),
            "tombstones": [False] * len(topics),
        }


def hang() -> DeferredResponse:
    """An answer that never comes."""
    return DeferredResponse()


def topic(name: str, *channels: dict[str, Any], **figures: Any) -> dict[str, Any]:
    """A topic of /stats."""
    return {"topic_name": name, "channels": list(channels), "depth": 0, "backend_depth": 0,
            "message_count": 0, "paused": False, **figures}  # fmt: skip


def channel(name: str, **figures: Any) -> dict[str, Any]:
    """A channel of /stats."""
    return {"channel_name": name, "depth": 0, "backend_depth": 0, "in_flight_count": 0,
            "deferred_count": 0, "message_count": 0, "requeue_count": 0, "timeout_count": 0,
            "client_count": 0, "clients": [], "paused": False, **figures}  # fmt: skip


StartFake = Callable[[], Awaitable[FakeDaemon]]


class _Everything(Router):
    """One handler for whatever is asked."""

    def __init__(self, daemon: FakeDaemon) -> None:
        super().__init__()
        for method in ("GET", "POST"):
            self.add(method, "/", daemon.answer)

    def resolve(self, method: str, path: str, query: bytes) -> Any:
        return super().resolve(method, "/", query)


@pytest.fixture
async def fake() -> AsyncIterator[StartFake]:
    """Starts scripted daemons."""
    async with AsyncExitStack() as stack:

        async def start() -> FakeDaemon:
            daemon = FakeDaemon()
            daemon.server = HttpServer(_Everything(daemon))
            daemon.listener = await tcp.listen(daemon.server, "127.0.0.1:0", "HTTP")
            daemon.address = daemon.listener.address
            stack.push_async_callback(daemon.listener.close)
            stack.callback(daemon.server.close_connections)
            return daemon

        yield start


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient(Timeouts(UPSTREAM_S, UPSTREAM_S), agent="test")
    yield http
    await http.close()


class Two:
    """A cluster of one scripted nsqlookupd and two scripted nsqds."""

    def __init__(self, lookupd: FakeDaemon, nsqds: list[FakeDaemon], http: HttpClient) -> None:
        self.lookupd, self.nsqds = lookupd, nsqds
        self.nodes = [nsqds[0].told("t", hostname="a"), nsqds[1].told("t", hostname="b")]
        lookupd.answers = {
            "/topics": {"topics": ["t"]},
            "/nodes": {"producers": self.nodes},
            "/lookup": {"channels": ["c"], "producers": self.nodes},
            "/channels": {"channels": ["c"]},
        }
        for node, depth in zip(nsqds, (5, 3), strict=True):
            figures = {"depth": depth, "backend_depth": 1, "message_count": depth}
            node.answers = {
                "/info": {**node.told(), "topics": None},
                "/stats": {"topics": [topic("t", channel("c", **figures), message_count=depth)]},
            }
        self.cluster = Cluster(http, Addresses((lookupd.address,), ()), SYSTEM_CLOCK)
        self.direct = Cluster(
            http, Addresses((), tuple(each.address for each in nsqds)), SYSTEM_CLOCK
        )


@pytest.fixture
async def two(fake: StartFake, http: HttpClient) -> Two:
    return Two(await fake(), [await fake(), await fake()], http)


async def until(condition: Callable[[], bool]) -> None:
    """Returns as soon as `condition` holds."""
    for _ in range(int(TIMEOUT_S * 1000)):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")

"""An nsqadmin inside the test's own loop, and daemons that answer what the test says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from penstock.admin.admin_options import AdminOptions
from penstock.admin.daemon import Nsqadmin
from penstock.core.units import SECOND
from penstock.net.http.client.once import request
from tests.programs.cluster.conftest import (
    TIMEOUT_S,
    UPSTREAM_S,
    FakeDaemon,
    StartFake,
    Two,
    channel,
    fake,
    hang,
    http,
    topic,
    two,
    until,
)

__all__ = [
    "TIMEOUT_S",
    "UPSTREAM_S",
    "FakeDaemon",
    "Running",
    "StartAdmin",
    "StartFake",
    "Two",
    "admin",
    "channel",
    "fake",
    "hang",
    "http",
    "topic",
    "two",
    "until",
]


class Running:
    """An nsqadmin, and ways to talk to it."""

    def __init__(self, admin: Nsqadmin) -> None:
        self.admin = admin

    async def ask(
        self, method: str, path: str, body: object = b"", **headers: str
    ) -> tuple[int, str]:
        """Status and body; a body that is no bytes goes as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.admin.http_port}{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await request(method, url, TIMEOUT_S, body=data, headers=named)
        return answer.status, answer.body.decode()

    async def get(self, path: str) -> Any:
        """The JSON of an answer that must be 200."""
        status, body = await self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)


StartAdmin = Callable[..., Awaitable[Running]]
PATIENT: dict[str, Any] = dict.fromkeys(
    ("http_client_connect_timeout", "http_client_request_timeout"), int(UPSTREAM_S * SECOND)
)


@pytest.fixture
async def admin() -> AsyncIterator[StartAdmin]:
    """Starts nsqadmins with these options; without a history unless they say otherwise."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Running:
            given = {"http_address": "127.0.0.1:0", "history_interval": 0, **PATIENT, **options}
            running = Running(await Nsqadmin.start(AdminOptions(**given)))
            stack.push_async_callback(running.admin.close)
            return running

        yield start

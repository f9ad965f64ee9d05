"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.rocketmq.broker import registration
from penstock.rocketmq.broker.admin import client_relays, offset_reset
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.send import request_reply
from penstock.rocketmq.broker.slaves import master_address
from penstock.rocketmq.broker.store import key_index
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tests.unit.rocketmq.broker.conftest import clock, connect, rocket, services, settings
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

__all__ = ["clock", "connect", "rocket", "services", "settings"]

PATIENT_S = 60.0
SLOW_S = 0.3
"""A name server's time for a registration, far longer than an answer takes that waits for none."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that gives up nothing which a busy machine does late."""
    for module, names in (
        (registration, ("PATIENCE_S", "FAREWELL_S")),
        (client_relays, ("ANSWER_S",)),
        (offset_reset, ("STATUS_S",)),
        (request_reply, ("PUSH_S",)),
        (master_address, ("ASK_S",)),
        (key_index, ("CATCH_UP_S", "SEARCH_S")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, PATIENT_S)


@pytest.fixture
def client(connect: Callable[[], RawClient]) -> RawClient:
    """One that is connected."""
    return connect()


async def _after_a_while(register: Callable[[], Awaitable[None]]) -> None:
    await asyncio.sleep(SLOW_S)
    await register()


@pytest.fixture
def routes(rocket: RocketBroker, loop_thread: LoopThread, tmp_path: Path) -> Iterator[RawClient]:
    """A client of the name server at which ``rocket`` is registered, which takes a while each
    time.
    """
    own = NamesrvSettings()
    own.listen_port, own.bind_address = 0, "127.0.0.1"
    own.kv_config_path = str(tmp_path / "kvConfig.json")
    server = loop_thread.run(NameServer.start(own))
    client = RawClient(server.port)
    servers = rocket.services.name_servers

    async def register() -> None:
        servers.set_addresses([f"127.0.0.1:{server.port}"])
        async with asyncio.timeout(PATIENT_S):
            while not servers.connected:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        for link in servers._links.values():
            link._register = partial(_after_a_while, link._register)  # type: ignore[method-assign]

    loop_thread.run(register())
    yield client
    client.close()
    loop_thread.run(server.close())

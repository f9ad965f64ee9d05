from __future__ import annotations

import asyncio

import pytest

from penstock.admin.admin_options import AdminOptions
from penstock.admin.daemon import Nsqadmin
from penstock.core.errors import ConfigError
from penstock.net.tcp import ListenError
from tests.unit.admin.conftest import Running, StartAdmin, Two


async def test_ping_and_the_end(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    assert await running.ask("GET", "/ping") == (200, "OK")


async def test_a_port_that_is_taken(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    address = f"127.0.0.1:{running.admin.http_port}"
    taken = AdminOptions(http_address=address, nsqd_http_addresses=("127.0.0.1:9",))
    with pytest.raises(ListenError, match="address already in use"):
        await Nsqadmin.start(taken)


async def test_options_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="required"):
        await Nsqadmin.start(AdminOptions())


async def test_a_history_begins_by_itself(two: Two, admin: StartAdmin) -> None:
    running: Running = await admin(
        lookupd_http_addresses=(two.lookupd.address,), history_interval=10**9
    )
    for _ in range(6000):
        status, _ = await running.ask("GET", "/api/history?topic=t")
        if status == 200:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("no history")

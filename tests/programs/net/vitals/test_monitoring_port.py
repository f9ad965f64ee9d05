from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.tcp import ListenError
from penstock.net.vitals.monitoring_port import MonitoringPort
from penstock.net.vitals.vitals import Vitals
from tests.metrics_pages import ask
from tools.harness.ports import unused_address

LOG = logging.getLogger("test")


async def test_the_pages_and_nothing_else() -> None:
    address = unused_address()
    port = await MonitoringPort.open(address, Vitals("mqnamesrv", SYSTEM_CLOCK), LOG)
    for path, status in (("/live", 200), ("/ping", 200), ("/ready", 200), ("/metrics", 200),
                         ("/stats", 404)):  # fmt: skip
        assert (await asyncio.to_thread(ask, address, path))[0] == status
    with pytest.raises(ListenError, match="address already in use"):
        await MonitoringPort.open(address, Vitals("mqnamesrv", SYSTEM_CLOCK), LOG)
    await port.close()
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(ask, address, "/ping")


async def test_a_program_that_is_not_well_lives() -> None:
    vitals = Vitals("mqbroker", SYSTEM_CLOCK, health=lambda: "NOK - no space left on device")
    port = await MonitoringPort.open("127.0.0.1:0", vitals, LOG)
    address = f"127.0.0.1:{port.port}"
    assert (await asyncio.to_thread(ask, address, "/ping"))[0] == 500
    assert await asyncio.to_thread(ask, address, "/live") == (200, "OK")
    await port.close()

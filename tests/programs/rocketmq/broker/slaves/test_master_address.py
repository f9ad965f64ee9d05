"""The address of a master, asked of a real name server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.rocketmq.broker.registration import Introduction, NameServers
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.slaves import master_address
from penstock.rocketmq.broker.state.topics import TopicTable
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from tests.unit.rocketmq.broker.conftest import broker_settings
from tools.harness.ports import unused_address


@pytest.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    settings = NamesrvSettings()
    settings.listen_port, settings.bind_address = 0, "127.0.0.1"
    settings.kv_config_path = str(tmp_path / "kv.json")
    server = await NameServer.start(settings)
    yield server
    await server.close()


def of_slave(path: Path, *servers: str) -> BrokerSettings:
    settings = broker_settings(path)
    settings.broker_role, settings.broker_id, settings.listen_port = "SLAVE", 1, 10921
    settings.namesrv_addr = ";".join(servers)
    return settings


async def test_a_slave_waits_for_its_master_and_leaves_no_registration(
    name_server: NameServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_address, "AGAIN_S", 0.01)
    slave = of_slave(tmp_path, unused_address(), f"127.0.0.1:{name_server.port}")
    assert await master_address.master(slave) == ""
    waiting = asyncio.ensure_future(master_address.wait_for_master(slave))
    own = broker_settings(tmp_path)
    own.namesrv_addr = f"127.0.0.1:{name_server.port}"
    master = NameServers(Introduction(own, TopicTable(), 10911, 10999), lambda _: None)
    master.start()
    async with asyncio.timeout(60):
        assert await waiting == "127.0.0.1:10999"
    addresses = name_server.routes.brokers["broker-a"].addresses
    assert addresses == {0: "127.0.0.1:10911"}
    await master.close()


async def test_a_registered_slave_is_told_where_its_master_is(
    name_server: NameServer, tmp_path: Path
) -> None:
    own = broker_settings(tmp_path)
    own.namesrv_addr = f"127.0.0.1:{name_server.port}"
    master = NameServers(Introduction(own, TopicTable(), 10911, 10999), lambda _: None)
    slave = NameServers(
        Introduction(of_slave(tmp_path, own.namesrv_addr), TopicTable(), 10921), lambda _: None
    )
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    slave.told_master = told.set_result
    master.start()
    async with asyncio.timeout(60):
        while not master.connected:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)
        slave.start()
        assert await told == "127.0.0.1:10999"
    await slave.close()
    await master.close()

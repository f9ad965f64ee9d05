"""The cases of `rocketmq/broker/clients/test_heartbeats.py` that need a port or a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import ONE_WAY
from tests.unit.rocketmq.broker.clients.test_heartbeats import NOTIFY
from tests.unit.rocketmq.broker.peers import heartbeat
from tests.unit.rocketmq.conftest import LoopThread
from tests.unit.rocketmq.raw_client import RawClient


def notified(client: RawClient) -> None:
    """Waits for the broker to say that the members are others now."""
    command = client.asked(NOTIFY)
    assert command.is_one_way
    assert command.ext == {"consumerGroup": "G"}


def ids(client: RawClient) -> list[str]:
    return list(fastjson.loads(client.ask(38, consumerGroup="G").body)["consumerIdList"])


def test_two_clients_in_a_group(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    one, two = connect(), connect()
    assert one.ask(34, heartbeat("c1", "G")).code == 0
    assert "%RETRY%G" in rocket.controller.topics.configs, "made before the answer"
    notified(one)
    assert ids(one) == ["c1"]
    assert two.ask(34, heartbeat("c2", "G")).code == 0
    notified(two)
    notified(one)
    assert ids(one) == ["c1", "c2"]
    two.close()
    notified(one)
    assert ids(one) == ["c1"]
    assert one.ask(35, clientID="c1", consumerGroup="G").code == 0
    assert one.ask(38, consumerGroup="G").code == 1


def test_a_heartbeat_one_way(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    client = connect()
    client.begin(34, heartbeat("c1", "G"), flag_=ONE_WAY)
    notified(client)
    assert ids(client) == ["c1"]
    assert client.requests == [], "and no answer"


@pytest.fixture
def routes(loop_thread: LoopThread, tmp_path: Path) -> Iterator[RawClient]:
    """A client of a name server."""
    settings = NamesrvSettings()
    settings.listen_port, settings.bind_address = 0, "127.0.0.1"
    settings.kv_config_path = str(tmp_path / "kvConfig.json")
    server = loop_thread.run(NameServer.start(settings))
    client = RawClient(server.port)
    yield client
    client.close()
    loop_thread.run(server.close())


def test_the_retry_topic_is_in_the_routes_right_after_the_first_heartbeat(
    rocket: RocketBroker,
    connect: Callable[[], RawClient],
    routes: RawClient,
    loop_thread: LoopThread,
) -> None:
    servers = rocket.controller.name_servers
    assert servers is not None

    async def register() -> None:
        servers.set_addresses([f"127.0.0.1:{routes.port}"])
        async with asyncio.timeout(30):
            while not servers.connected:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)

    loop_thread.run(register())
    assert routes.ask(105, topic="%RETRY%G").code == 17
    assert connect().ask(34, heartbeat("c1", "G")).code == 0
    assert routes.ask(105, topic="%RETRY%G").code == 0

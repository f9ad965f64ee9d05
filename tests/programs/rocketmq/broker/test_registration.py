"""Registering at name servers, also at one that misbehaves; a slave asks for its master there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.net import tcp
from penstock.rocketmq.broker import registration
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.registration import Introduction, NameServers
from penstock.rocketmq.broker.slaves import master_address
from penstock.rocketmq.broker.state.topic_table import TopicTable
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.protocol import registration as bodies
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.rocketmq.remoting import Connection, RemotingServer
from penstock.rocketmq.remoting_client import connect
from tests.unit.rocketmq.broker.conftest import broker_settings
from tests.unit.rocketmq.broker.filling import until
from tools.harness.ports import unused_address


class Servers:
    """Name servers, and a broker that registers with them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.running: list[NameServer] = []
        self.settings: BrokerSettings = broker_settings(path)
        self.topics = TopicTable()
        self.topics.put(TopicConfig("T", 4, 4), 1)
        self.ordered: list[set[str]] = []
        self.introduction = Introduction(self.settings, self.topics, 10911)
        self.broker = NameServers(self.introduction, self.ordered.append)

    async def name_server(self, port: int = 0) -> NameServer:
        settings = NamesrvSettings()
        settings.listen_port = port or int(unused_address().rpartition(":")[2])
        settings.bind_address = "127.0.0.1"
        settings.kv_config_path = str(self._path / f"kv{len(self.running)}.json")
        self.running.append(await NameServer.start(settings))
        return self.running[-1]

    async def registered(self) -> NameServer:
        """The one at which the broker is registered now."""
        server = await self.name_server()
        self.start(server)
        await until(lambda: server.routes.route("T"))
        return server

    def start(self, *servers: NameServer) -> None:
        self.settings.namesrv_addr = ";".join(f"localhost:{each.port}" for each in servers)
        self.broker.start()

    async def close(self) -> None:
        await self.broker.close()
        for server in self.running:
            await server.close()


def queue_data(server: NameServer) -> Any:
    """What a name server tells of T's queues."""
    route = server.routes.route("T")
    assert route is not None
    return route["queueDatas"][0]


@pytest.fixture
async def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    monkeypatch.setattr(registration, "RETRY_S", 0.01)
    made = Servers(tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize("compressed", [False, True])
async def test_every_name_server_knows_the_broker(servers: Servers, compressed: bool) -> None:
    servers.settings.compressed_register = compressed
    one, other = await servers.name_server(), await servers.name_server()
    servers.start(one, other)
    for server in (one, other):
        await until(lambda server=server: server.routes.route("T"))
        route = server.routes.route("T")
        assert route is not None
        addresses = {0: "127.0.0.1:10911"}
        assert route["brokerDatas"] == [
            {"brokerName": "broker-a", "cluster": "DefaultCluster", "brokerAddrs": addresses}
        ]
        assert queue_data(server)["writeQueueNums"] == 4
        assert server.routes.live["127.0.0.1:10911"].ha_address == "127.0.0.1:10912"


async def test_changes_are_known_when_registered_returns(servers: Servers) -> None:
    one, other = await servers.name_server(), await servers.name_server()
    servers.start(one, other)
    await until(lambda: len(servers.broker.connected) == 2)
    for number in range(20):
        servers.topics.put(TopicConfig(f"N{number}"), 2 + number)
        await servers.broker.registered()
        assert one.routes.route(f"N{number}")
        assert other.routes.route(f"N{number}")


async def test_a_mistake_of_ours_does_not_end_it(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes = [ValueError("a mistake")]
    request = Introduction.request

    def mistaken(introduction: Introduction) -> tuple[dict[str, str], bytes]:
        if mistakes:
            raise mistakes.pop()
        return request(introduction)

    monkeypatch.setattr(Introduction, "request", mistaken)
    await servers.registered()
    assert not mistakes


async def test_leaving_is_known_at_once(servers: Servers) -> None:
    one = await servers.registered()
    await servers.broker.close()
    assert one.routes.live == {}


async def test_a_permission_of_the_broker_covers_its_topics(servers: Servers) -> None:
    one = await servers.registered()
    servers.settings.broker_permission = 4
    servers.topics.version.next(2)
    await servers.broker.registered()
    assert queue_data(one)["perm"] == 4


async def test_a_name_server_that_comes_back_is_told_again(servers: Servers) -> None:
    one = await servers.registered()
    await one.close()
    await until(lambda: not servers.broker.connected)
    await servers.broker.registered()  # with nobody there it does not wait
    again = await servers.name_server(one.port)
    await until(lambda: again.routes.route("T"))


async def test_one_that_is_not_there_hinders_no_other(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    gone = await servers.name_server()
    await gone.close()
    one = await servers.name_server()
    servers.start(gone, one)
    await until(lambda: one.routes.route("T"))
    await servers.broker.registered()
    told = f"localhost:{gone.port}: not registered"
    await until(lambda: told in caplog.text)
    await asyncio.sleep(0.1)
    assert caplog.text.count(told) == 1


async def test_the_addresses_change(servers: Servers) -> None:
    one, other = await servers.name_server(), await servers.name_server()
    servers.start(one)
    await until(lambda: one.routes.route("T"))
    servers.broker.set_addresses([f"127.0.0.1:{other.port}"])
    await until(lambda: other.routes.route("T"))
    await until(lambda: not one.routes.live)


async def test_ordered_topics_are_handed_on(servers: Servers) -> None:
    one = await servers.registered()
    assert servers.ordered == []  # this name server said nothing of that
    admin = await connect(f"127.0.0.1:{one.port}", 30)
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
    assert (await admin.invoke(100, fields, seconds=30)).code == 0
    await servers.broker.registered()
    assert servers.ordered == [{"T"}]
    del fields["value"]
    await admin.invoke(102, fields, seconds=30)
    await servers.broker.registered()
    assert servers.ordered[-1] == set()
    admin.close()


class Refusing:
    """A name server that refuses everybody."""

    requests = 0

    def handle(self, connection: Connection, request: Command) -> Command:
        self.requests += 1
        return request.answer(1, "not today")

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


async def test_a_refusal_is_logged_once_and_tried_again(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = Refusing()
    remoting = RemotingServer(refusing)
    listener = await tcp.listen(remoting, "127.0.0.1:0")
    servers.broker.set_addresses([listener.address])
    await until(lambda: refusing.requests >= 3)
    assert caplog.text.count("not today") == 1
    await listener.close()
    remoting.close_connections()


def test_the_body_is_made_once_for_all(tmp_path: Path) -> None:
    topics = TopicTable()
    topics.put(TopicConfig("T"), 1)
    introduction = Introduction(broker_settings(tmp_path), topics, 10911)
    fields, body = introduction.request()
    assert introduction.request()[1] is body
    assert fields["brokerAddr"] == "127.0.0.1:10911"
    topics.put(TopicConfig("U"), 2)
    changed = bodies.decode(introduction.request()[1])
    assert list(changed.topics) == ["T", "U"]
    assert changed.data_version == {"counter": 2, "timestamp": 2}


# --- a slave that asks for its master -------------------------------------------------------------


def of_slave(path: Path, *servers: str) -> BrokerSettings:
    settings = broker_settings(path)
    settings.broker_role, settings.broker_id, settings.listen_port = "SLAVE", 1, 10921
    settings.namesrv_addr = ";".join(servers)
    return settings


def introduced(servers: Servers, at: NameServer) -> NameServers:
    """The master, whose slaves find it at another port."""
    servers.settings.namesrv_addr = f"127.0.0.1:{at.port}"
    introduction = Introduction(servers.settings, TopicTable(), 10911, 10999)
    return NameServers(introduction, lambda _: None)


async def test_a_slave_waits_for_its_master_and_leaves_no_registration(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_address, "AGAIN_S", 0.01)
    server = await servers.name_server()
    slave = of_slave(tmp_path, unused_address(), f"127.0.0.1:{server.port}")
    assert await master_address.master(slave) == ""
    waiting = asyncio.ensure_future(master_address.wait_for_master(slave))
    master = introduced(servers, server)
    master.start()
    assert await asyncio.wait_for(waiting, 60) == "127.0.0.1:10999"
    assert server.routes.brokers["broker-a"].addresses == {0: "127.0.0.1:10911"}
    await master.close()


async def test_a_registered_slave_is_told_where_its_master_is(
    servers: Servers, tmp_path: Path
) -> None:
    server = await servers.name_server()
    master = introduced(servers, server)
    settings = of_slave(tmp_path, f"127.0.0.1:{server.port}")
    slave = NameServers(Introduction(settings, TopicTable(), 10921), lambda _: None)
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    slave.told_master = told.set_result
    master.start()
    await until(lambda: master.connected)
    slave.start()
    assert await asyncio.wait_for(told, 60) == "127.0.0.1:10999"
    await slave.close()
    await master.close()

"""The broker as a whole: ports, what it has from its start, its end."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, DiskFullError, PenstockError, StorageError
from penstock.core.units import HOUR
from penstock.node.node import Node
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.registration import NameServers
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.storage.files.disk import OsDisk
from penstock.storage.retention import Retention
from penstock.testing.daemons import hold
from tests.unit.rocketmq.broker.conftest import fake_node
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from .asking import has_route, make_topic, pull, send


class Runs:
    """A broker that is started and closed again over one node, and a client of it."""

    def __init__(self, loop_thread: LoopThread, host: Node, settings: BrokerSettings) -> None:
        self.loop, self.host, self.settings = loop_thread, host, settings
        self.broker: RocketBroker | None = None
        self._client: RawClient | None = None

    @property
    def client(self) -> RawClient:
        """One that is connected."""
        if self._client is None:
            assert self.broker is not None
            self._client = RawClient(self.broker.port)
        return self._client

    def start(self) -> RocketBroker:
        self.broker = self.loop.run(RocketBroker.start(self.settings, self.host))
        return self.broker

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self.broker is not None:
            self.loop.run(self.broker.close())
        self.broker = self._client = None

    def restart(self) -> RocketBroker:
        self.close()
        return self.start()


@pytest.fixture
def runs(loop_thread: LoopThread, tmp_path: Path, settings: BrokerSettings) -> Iterator[Runs]:
    runs = Runs(loop_thread, fake_node(tmp_path), settings)
    yield runs
    runs.close()
    runs.host.broker.close()


def table(client: RawClient) -> dict[str, dict[str, int]]:
    answer = client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    found: dict[str, dict[str, int]] = json.loads(answer.body)["topicConfigTable"]
    return found


def full_disk(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Files of these names find no room; all, if there are no names."""
    replace = OsDisk.replace_file

    def full(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        if not names or path.endswith(names):
            raise DiskFullError(f"{path}: No space left on device")
        replace(disk, path, *data, sync=sync)

    patch.setattr(OsDisk, "replace_file", full)


def test_it_has_its_own_topics_and_groups(rocket: RocketBroker, client: RawClient) -> None:
    topics = table(client)
    assert (topics["TBW102"]["perm"], topics["TBW102"]["writeQueueNums"]) == (7, 8)
    assert {"broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} < set(topics)
    groups = json.loads(client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert "TOOLS_CONSUMER" in groups["subscriptionGroupTable"]
    port = rocket.services.address.port
    assert port == rocket.services.store.address.port == rocket.port > 0, "ids carry the real one"
    assert rocket.address == f"127.0.0.1:{rocket.port}"


# --- ports ----------------------------------------------------------------------------------------


def free_port() -> int:
    """A port with the one two below it free too, not among those that are given to whoever asks;
    both are held until this process ends.
    """
    while True:
        port = random.randrange(20_000, 30_000)
        held = [each for each in (hold(port), hold(port - 2)) if each is not None]
        for each in held:
            if len(held) == 2:
                each.detach()
            else:
                each.close()
        if len(held) == 2:
            return port


def test_the_vip_port_speaks_the_same_protocol(runs: Runs) -> None:
    runs.settings.listen_port = free_port()
    runs.start()
    with closing(RawClient(runs.settings.listen_port - 2)) as client:
        assert "TBW102" in table(client)
    runs.close()
    with pytest.raises(OSError, match="refused"):
        RawClient(runs.settings.listen_port)


def test_a_taken_vip_port_is_a_warning(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    runs.settings.listen_port = free_port()
    with closing(socket.create_server(("127.0.0.1", runs.settings.listen_port - 2))):
        runs.start()
        assert "VIP channel" in caplog.text


def test_a_taken_port_is_one_clear_line(runs: Runs) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        runs.settings.listen_port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match="the broker cannot start: listen") as raised:
            runs.start()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["name.invalid", "a..b"])
def test_an_address_that_is_none(runs: Runs, name: str) -> None:
    runs.settings.broker_ip1 = name
    with pytest.raises(ConfigError, match=f"brokerIP1={re.escape(name)} is not an address: "):
        runs.start()


# --- starts and ends ------------------------------------------------------------------------------


def test_tables_outlive_the_broker(runs: Runs) -> None:
    topics = runs.start().services.topics
    make_topic(runs.client, "T")
    runs.client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
    version = topics.version.counter
    again = runs.restart().services
    assert again.topics.get("T") is not None
    assert "G" in again.groups.configs
    assert again.topics.version.counter == version


def test_a_damaged_table_is_one_clear_line(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"topics\.json is damaged \(topics without"):
        runs.start()


def test_a_start_that_fails_leaves_nothing_open(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(servers: NameServers) -> None:
        raise ConfigError("no such name server")

    runs.settings.listen_port = free_port()
    with monkeypatch.context() as patch:
        patch.setattr(NameServers, "start", fail)
        with pytest.raises(ConfigError, match="no such name server"):
            runs.start()
    runs.start()


async def test_services_that_never_started_can_be_closed(services: Services) -> None:
    running = services.running()
    assert services.schedule in running
    for service in running:
        await service.close()


def test_nothing_goes_on_after_the_end(runs: Runs) -> None:
    runs.start()
    runs.close()

    async def left() -> list[str]:
        await asyncio.sleep(0)
        own = asyncio.current_task()
        return [task.get_name() for task in asyncio.all_tasks() if task is not own]

    assert runs.loop.run(left()) == []


# --- topics that no table has ---------------------------------------------------------------------


def test_topics_of_others_can_be_found(runs: Runs) -> None:
    host = runs.host
    for name in ("before", "only.nsq"):
        host.registry.topic(name)
    broker = runs.start()

    async def create_and_delete() -> None:
        broker.topic_created(host.registry.topic("after"))
        await host.registry.delete_topic(host.broker.topics["before"])
        broker.topic_deleted("before")

    assert table(runs.client)["before"]["writeQueueNums"] == 1
    assert "only.nsq" not in table(runs.client)
    runs.loop.run(create_and_delete())
    assert "after" in table(runs.client)
    assert "before" not in table(runs.client)


def test_a_topic_that_is_deleted_is_in_no_table_though_not_all_can_be_written(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = runs.host.registry.topic("before")
    dropped: list[str] = []
    runs.start().services.store.deleted.append(dropped.append)
    with monkeypatch.context() as patch:
        full_disk(patch, "serials.json", "consumerOffset.json")
        with pytest.raises(DiskFullError):
            runs.loop.run(runs.host.registry.delete_topic(topic))
    assert "before" not in table(runs.client)
    assert dropped == ["before"]


def test_a_topic_of_several_queues_that_no_table_has_keeps_them(runs: Runs, tmp_path: Path) -> None:
    """As of a slave that was promoted when it had the messages, and not the table yet."""
    runs.start()
    make_topic(runs.client, "T")
    assert send(runs.client, "T", queue=3).code == 0
    runs.close()
    (tmp_path / "config" / "topics.json").unlink()
    runs.start()
    assert table(runs.client)["T"]["readQueueNums"] == 4
    end = runs.client.ask(RequestCode.GET_MAX_OFFSET, topic="T", queueId=3)
    assert end.int64("offset") == 1
    reserved = Retention(time_ns=runs.settings.file_reserved_time * HOUR)
    assert runs.host.broker.topics["T"].retention == reserved


def test_a_topic_of_one_queue_that_no_table_has_is_of_those_who_sent_to_it(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill in the middle of its deletion, or on a slave promoted before its time."""

    def fails(offset: int) -> None:
        raise StorageError("cannot be read")

    runs.start()
    for name in ("T", "Empty", "Torn"):
        make_topic(runs.client, name, queues=1)
    runs.host.registry.topic("Empty")
    for name in ("T", "Torn", "%RETRY%g"):
        assert send(runs.client, name).code == 0
    runs.close()
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).unlink()
    monkeypatch.setattr(runs.host.broker.topics["Torn"].log, "batch_at", fails)
    runs.start()
    of_nsq = json.loads((tmp_path / "config" / "nsqTopics.json").read_bytes())["topics"]
    assert of_nsq == ["Empty", "Torn"]


def test_a_broker_starts_on_a_full_disk_and_serves_what_it_has(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a topic of NSQ's came too late to be written into any table."""
    runs.start()
    make_topic(runs.client, "T")
    assert send(runs.client, "T").code == ResponseCode.SUCCESS
    runs.close()
    runs.host.broker.topic("late")
    with monkeypatch.context() as patch:
        full_disk(patch)
        runs.start()
        assert "TOPIC(late): not for RocketMQ's clients, as the disk is full" in caplog.text
        assert pull(runs.client, "T", 0, 0)[0].code == ResponseCode.SUCCESS
        late = send(runs.client, "late").code
        assert late != ResponseCode.SUCCESS, "it has no serial number"
    assert send(runs.client, "late").code == ResponseCode.SUCCESS
    assert pull(runs.client, "late", 0, 0)[0].code == ResponseCode.SUCCESS


# --- name servers ---------------------------------------------------------------------------------


def test_name_servers_know_a_topic_before_its_maker_does(runs: Runs, tmp_path: Path) -> None:
    of_server = NamesrvSettings()
    of_server.listen_port, of_server.bind_address = 0, "127.0.0.1"
    of_server.kv_config_path = str(tmp_path / "kv.json")
    server = runs.loop.run(NameServer.start(of_server))
    runs.settings.namesrv_addr = f"127.0.0.1:{server.port}"
    runs.start()
    routes = RawClient(server.port)

    async def registered() -> None:
        async with asyncio.timeout(30):
            while not server.routes.route("TBW102"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    runs.loop.run(registered())
    make_topic(runs.client, "T")
    assert has_route(routes, "T")
    runs.client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    order: dict[str, Any] = {"namespace": "ORDER_TOPIC_CONFIG", "key": "U", "value": "broker-a:4"}
    routes.ask(RequestCode.PUT_KV_CONFIG, **order)
    for name, is_ordered in (("U", True), ("V", False)):
        make_topic(runs.client, name)
        assert table(runs.client)[name]["order"] is is_ordered
    runs.close()
    assert not has_route(routes, "U")
    routes.close()
    runs.loop.run(server.close())


def test_a_topic_is_in_the_routes_when_its_first_chunk_may_be_answered(
    rocket: RocketBroker, loop_thread: LoopThread, routes: RawClient
) -> None:
    assert not has_route(routes, "New")
    loop_thread.run(rocket.staging.topic("New"))
    assert has_route(routes, "New")

"""The broker as a whole: ports, what it has from its start, its end."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, DiskFullError, PenstockError, StorageError
from penstock.core.units import HOUR
from penstock.node.node import Node
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.registration import NameServers
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.storage.files.disk import OsDisk
from penstock.storage.retention import Retention
from penstock.testing.daemons import hold
from tests.unit.rocketmq.broker.conftest import broker_settings, fake_node
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Node]:
    host = fake_node(tmp_path)
    yield host
    host.broker.close()


def table(client: RawClient) -> dict[str, dict[str, int]]:
    answer = client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    found: dict[str, dict[str, int]] = json.loads(answer.body)["topicConfigTable"]
    return found


def test_it_has_its_own_topics_and_groups(connect: Callable[[], RawClient]) -> None:
    client = connect()
    topics = table(client)
    assert topics["TBW102"]["perm"] == 7
    assert topics["TBW102"]["writeQueueNums"] == 8
    assert {"broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} < set(topics)
    groups = json.loads(client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert "TOOLS_CONSUMER" in groups["subscriptionGroupTable"]


def test_an_unknown_code_is_answered(connect: Callable[[], RawClient]) -> None:
    answer = connect().ask(4711)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 4711 not supported"


def test_ids_carry_the_real_port(rocket: RocketBroker) -> None:
    assert rocket.services.address.port == rocket.services.store.address.port == rocket.port
    assert rocket.address == f"127.0.0.1:{rocket.port}"


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


def test_the_vip_port_speaks_the_same_protocol(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings
) -> None:
    settings.listen_port = free_port()
    broker = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(settings.listen_port - 2)
    assert "TBW102" in table(client)
    client.close()
    loop_thread.run(broker.close())
    with pytest.raises(OSError, match="refused"):
        RawClient(settings.listen_port)


def test_a_taken_vip_port_is_a_warning(
    loop_thread: LoopThread,
    host: Node,
    settings: BrokerSettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.listen_port = free_port()
    with closing(socket.create_server(("127.0.0.1", settings.listen_port - 2))):
        broker = loop_thread.run(RocketBroker.start(settings, host))
        assert "VIP channel" in caplog.text
        loop_thread.run(broker.close())


def test_a_taken_port_is_one_clear_line(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        settings.listen_port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match="the broker cannot start: listen") as raised:
            loop_thread.run(RocketBroker.start(settings, host))
    assert "\n" not in str(raised.value)


def test_tables_outlive_the_broker(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings
) -> None:
    broker = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(broker.port)
    make_topic(client, "T")
    client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
    version = broker.services.topics.version.counter
    client.close()
    loop_thread.run(broker.close())
    again = loop_thread.run(RocketBroker.start(settings, host))
    assert again.services.topics.get("T") is not None
    assert "G" in again.services.groups.configs
    assert again.services.topics.version.counter == version
    loop_thread.run(again.close())


def test_a_damaged_table_is_one_clear_line(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"topics\.json is damaged \(topics without"):
        loop_thread.run(RocketBroker.start(settings, host))


def test_a_start_that_fails_leaves_nothing_open(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(servers: NameServers) -> None:
        raise ConfigError("no such name server")

    settings.listen_port = free_port()
    with monkeypatch.context() as patch:
        patch.setattr(NameServers, "start", fail)
        with pytest.raises(ConfigError, match="no such name server"):
            loop_thread.run(RocketBroker.start(settings, host))
    broker = loop_thread.run(RocketBroker.start(settings, host))
    loop_thread.run(broker.close())


@pytest.mark.parametrize("name", ["name.invalid", "a..b"])
def test_an_address_that_is_none(host: Node, settings: BrokerSettings, name: str) -> None:
    settings.broker_ip1 = name
    with pytest.raises(ConfigError, match=f"brokerIP1={re.escape(name)} is no address: "):
        asyncio.run(RocketBroker.start(settings, host))


def test_topics_of_others_can_be_found(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings
) -> None:
    host.registry.topic("before")
    host.registry.topic("only.nsq")
    broker = loop_thread.run(RocketBroker.start(settings, host))

    async def create_and_delete() -> None:
        broker.topic_created(host.registry.topic("after"))
        before = host.broker.topics["before"]
        await host.registry.delete_topic(before)
        broker.topic_deleted("before")

    client = RawClient(broker.port)
    assert table(client)["before"]["writeQueueNums"] == 1
    assert "only.nsq" not in table(client)
    loop_thread.run(create_and_delete())
    assert "after" in table(client)
    assert "before" not in table(client)
    client.close()
    loop_thread.run(broker.close())


def test_a_topic_that_is_deleted_is_in_no_table_though_not_all_can_be_written(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = host.registry.topic("before")
    broker = loop_thread.run(RocketBroker.start(settings, host))
    dropped: list[str] = []
    broker.services.store.deleted.append(dropped.append)
    replace = OsDisk.replace_file

    def full(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        if path.endswith(("serials.json", "consumerOffset.json")):
            raise DiskFullError(f"{path}: No space left on device")
        replace(disk, path, *data, sync=sync)

    monkeypatch.setattr(OsDisk, "replace_file", full)
    with pytest.raises(DiskFullError):
        loop_thread.run(host.registry.delete_topic(topic))
    monkeypatch.undo()
    client = RawClient(broker.port)
    assert "before" not in table(client)
    assert dropped == ["before"]
    client.close()
    loop_thread.run(broker.close())


def test_a_topic_of_several_queues_that_no_table_has_keeps_them(
    loop_thread: LoopThread, host: Node, settings: BrokerSettings, tmp_path: Path
) -> None:
    """As of a slave that was promoted when it had the messages, and not the table yet."""
    broker = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(broker.port)
    make_topic(client, "T")
    sent = client.ask(RequestCode.SEND_MESSAGE_V2, b"x", a="g", b="T", c="TBW102", d=4, e=3, f=0,
                      g=0, h=0, i="", j=0)  # fmt: skip
    assert sent.code == 0
    client.close()
    loop_thread.run(broker.close())
    (tmp_path / "config" / "topics.json").unlink()
    again = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(again.port)
    assert table(client)["T"]["readQueueNums"] == 4
    end = client.ask(RequestCode.GET_MAX_OFFSET, topic="T", queueId=3)
    assert end.int64("offset") == 1
    reserved = Retention(time_ns=settings.file_reserved_time * HOUR)
    assert host.broker.topics["T"].retention == reserved
    client.close()
    loop_thread.run(again.close())


def test_a_topic_of_one_queue_that_no_table_has_is_of_those_who_sent_to_it(
    loop_thread: LoopThread,
    host: Node,
    settings: BrokerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a kill in the middle of its deletion, or on a slave promoted before its time."""
    broker = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(broker.port)
    for name in ("T", "Empty", "Torn"):
        make_topic(client, name, queues=1)
    host.registry.topic("Empty")
    for name in ("T", "Torn", "%RETRY%g"):
        sent = client.ask(RequestCode.SEND_MESSAGE_V2, b"x", a="g", b=name, c="TBW102", d=1, e=0,
                          f=0, g=0, h=0, i="", j=0)  # fmt: skip
        assert sent.code == 0
    client.close()
    loop_thread.run(broker.close())
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).unlink()
    monkeypatch.setattr(host.broker.topics["Torn"].log, "batch_at", fails)
    again = loop_thread.run(RocketBroker.start(settings, host))
    of_nsq = json.loads((tmp_path / "config" / "nsqTopics.json").read_bytes())["topics"]
    assert of_nsq == ["Empty", "Torn"]
    loop_thread.run(again.close())


def fails(offset: int) -> None:
    raise StorageError("cannot be read")


def make_topic(client: RawClient, name: str, *, queues: int = 4) -> None:
    answer = client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC, topic=name, defaultTopic="TBW102",
        readQueueNums=queues, writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG",
        order="false",
    )  # fmt: skip
    assert answer.code == 0, answer.remark


def test_name_servers_know_a_topic_before_its_maker_does(
    loop_thread: LoopThread, host: Node, tmp_path: Path
) -> None:
    of_server = NamesrvSettings()
    of_server.listen_port, of_server.bind_address = 0, "127.0.0.1"
    of_server.kv_config_path = str(tmp_path / "kv.json")
    server = loop_thread.run(NameServer.start(of_server))
    settings = broker_settings(tmp_path)
    settings.namesrv_addr = f"127.0.0.1:{server.port}"
    broker = loop_thread.run(RocketBroker.start(settings, host))
    name_client, client = RawClient(server.port), RawClient(broker.port)

    async def registered() -> None:
        async with asyncio.timeout(30):
            while not server.routes.route("TBW102"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    loop_thread.run(registered())
    make_topic(client, "T")
    assert name_client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").code == 0
    client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    order: dict[str, Any] = {"namespace": "ORDER_TOPIC_CONFIG", "key": "U", "value": "broker-a:4"}
    name_client.ask(RequestCode.PUT_KV_CONFIG, **order)
    make_topic(client, "U")
    make_topic(client, "V")
    assert table(client)["U"]["order"] is True
    assert table(client)["V"]["order"] is False
    client.close()
    loop_thread.run(broker.close())
    assert name_client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="U").code == (
        ResponseCode.TOPIC_NOT_EXIST
    )
    name_client.close()
    loop_thread.run(server.close())


async def test_services_that_never_started_can_be_closed(services: Services) -> None:
    running = services.running()
    assert services.schedule in running
    for service in running:
        await service.close()


def test_nothing_goes_on_after_the_end(
    loop_thread: LoopThread, settings: BrokerSettings, tmp_path: Path
) -> None:
    host = fake_node(tmp_path)
    broker = loop_thread.run(RocketBroker.start(settings, host))
    loop_thread.run(broker.close())

    async def left() -> list[str]:
        await asyncio.sleep(0)
        own = asyncio.current_task()
        return [task.get_name() for task in asyncio.all_tasks() if task is not own]

    assert loop_thread.run(left()) == []
    host.broker.close()


def send_to(client: RawClient, topic: str) -> int:
    return client.ask(RequestCode.SEND_MESSAGE_V2, b"x", a="g", b=topic, c="TBW102", d=4, e=0, f=0,
                      g=0, h=0, i="", j=0).code  # fmt: skip


def pull(client: RawClient, topic: str) -> int:
    return client.ask(RequestCode.PULL_MESSAGE, consumerGroup="g", topic=topic, queueId=0,
                      queueOffset=0, maxMsgNums=1, sysFlag=4, commitOffset=0,
                      suspendTimeoutMillis=0, subscription="*", subVersion=0).code  # fmt: skip


def test_a_broker_starts_on_a_full_disk_and_serves_what_it_has(
    loop_thread: LoopThread,
    host: Node,
    settings: BrokerSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where a topic of NSQ's came too late to be written into any table."""
    broker = loop_thread.run(RocketBroker.start(settings, host))
    client = RawClient(broker.port)
    make_topic(client, "T")
    assert send_to(client, "T") == ResponseCode.SUCCESS
    client.close()
    loop_thread.run(broker.close())
    host.broker.topic("late")

    def full(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        raise DiskFullError(f"{path}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "replace_file", full)
        broker = loop_thread.run(RocketBroker.start(settings, host))
        assert "TOPIC(late): not for RocketMQ's clients, as the disk is full" in caplog.text
        client = RawClient(broker.port)
        assert pull(client, "T") == ResponseCode.SUCCESS
        assert send_to(client, "late") != ResponseCode.SUCCESS, "it has no serial number"
    assert send_to(client, "late") == ResponseCode.SUCCESS
    assert pull(client, "late") == ResponseCode.SUCCESS
    client.close()
    loop_thread.run(broker.close())

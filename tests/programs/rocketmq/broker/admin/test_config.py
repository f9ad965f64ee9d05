"""The configuration read and changed while the broker runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.settings import java_properties
from penstock.core.units import HOUR
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.retention import Retention
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]


@pytest.fixture
def settings(settings: BrokerSettings, tmp_path: Path) -> BrokerSettings:
    settings.broker_config_path = str(tmp_path / "broker.properties")
    return settings


def update(client: RawClient, text: str) -> Command:
    return client.ask(RequestCode.UPDATE_BROKER_CONFIG, text.encode())


def config(client: RawClient) -> dict[str, str]:
    return java_properties.loads(client.ask(RequestCode.GET_BROKER_CONFIG).body.decode())


def test_reading(connect: Connect) -> None:
    client = connect()
    answer = client.ask(RequestCode.GET_BROKER_CONFIG)
    assert json.loads((answer.ext or {})["version"]) == {"counter": 0, "timestamp": 0}
    found = config(client)
    assert found["brokerName"] == "broker-a"
    assert found["brokerIP1"] == "127.0.0.1"


def test_changes_act_and_are_kept_for_the_next_start(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    (tmp_path / "broker.properties").write_text("brokerName=broker-a\n")
    assert update(client, "maxMessageSize=77\nbrokerNmae=x\nhaTransferBatchSize=1\n").code == 0
    assert config(client)["maxMessageSize"] == "77"
    kept = java_properties.loads((tmp_path / "broker.properties").read_text())
    assert kept == {"brokerName": "broker-a", "maxMessageSize": "77", "haTransferBatchSize": "1"}
    version = client.ask(RequestCode.GET_BROKER_CONFIG).ext
    assert json.loads((version or {})["version"])["counter"] == 1


def test_permission_is_a_new_version_of_the_topics(connect: Connect, rocket: RocketBroker) -> None:
    told = []
    rocket.services.topics.listeners.append(
        lambda: told.append(rocket.services.topics.version.counter)
    )
    before = rocket.services.topics.version.counter
    assert update(connect(), "brokerPermission=4").code == 0
    assert told == [before + 1]


def test_messages_stay_as_long_as_was_said_last(
    connect: Connect, rocket: RocketBroker, tmp_path: Path
) -> None:
    client, services = connect(), rocket.services
    services.topics.put(TopicConfig("T", 4, 4), services.now_ms)
    topic = services.store.topic("T")
    theirs = services.store.topic("theirs")  # without a configuration: not RocketMQ's
    assert update(client, "fileReservedTime=48").code == 0
    assert config(client)["fileReservedTime"] == "48"
    assert topic.retention == Retention(time_ns=48 * HOUR)
    assert theirs.retention is None
    kept = java_properties.loads((tmp_path / "broker.properties").read_text())
    assert kept["fileReservedTime"] == "48"


def test_automatic_topics_are_switched_off_and_on(connect: Connect, rocket: RocketBroker) -> None:
    client, topics = connect(), rocket.services.topics
    update(client, "autoCreateTopicEnable=false")
    assert topics.configs["TBW102"].perm == 6
    assert topics.make_for_send("New", "TBW102", 4, 1) is None
    update(client, "autoCreateTopicEnable=true\ndefaultTopicQueueNums=5")
    made = topics.make_for_send("New", "TBW102", 9, 1)
    assert made is not None
    assert made.write_queues == 5


def test_name_servers_are_left_and_joined(connect: Connect, rocket: RocketBroker) -> None:
    client = connect()
    assert update(client, "namesrvAddr=127.0.0.1:1;127.0.0.1:2").code == 0
    assert rocket.services.name_servers is not None
    assert list(rocket.services.name_servers._links) == ["127.0.0.1:1", "127.0.0.1:2"]
    assert update(client, "namesrvAddr=").code == 0
    assert rocket.services.name_servers._links == {}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("brokerConfigPath=/x", 16, "Can not update config in black list."),
        ("configBlackList=", 16, "Can not update config in black list."),
        ("listenPort=1", 16, "listenPort cannot change while the broker runs"),
        ("tls.server.mode=disabled", 16, "tls.server.mode cannot change while the broker runs"),
        ("brokerPermission=9", 1, "brokerPermission must be 0 to 7"),
        ("maxMessageSize=many", 1, "maxMessageSize must be a number"),
        ("fileReservedTime=-1", 1, "fileReservedTime must not be negative"),
        ("fileReservedTime=long", 1, "fileReservedTime must be a number"),
    ],
)
def test_what_is_refused_changes_nothing(
    connect: Connect, tmp_path: Path, text: str, code: int, words: str
) -> None:
    client = connect()
    before = config(client)
    answer = update(client, f"regionId=elsewhere\n{text}\n")
    assert answer.code == code
    assert words in (answer.remark or "")
    assert config(client) == before
    assert not (tmp_path / "broker.properties").exists()


def test_bodies_that_say_nothing(connect: Connect) -> None:
    client = connect()
    assert update(client, "").code == 0
    bad = client.ask(RequestCode.UPDATE_BROKER_CONFIG, b"\xff=\xff")
    assert bad.code == ResponseCode.SYSTEM_ERROR
    assert bad.remark == "the properties are not UTF-8"

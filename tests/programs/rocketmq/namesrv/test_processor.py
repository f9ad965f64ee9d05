"""Every request of the name server, as clients and brokers send it to the real port."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest

from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.protocol import registration
from penstock.rocketmq.protocol.codes import COMMANDS
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.codes import ResponseCode as R
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.registration import Registration, TopicConfig
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]
TOPICS = {"T": TopicConfig("T", 4, 4), "U": TopicConfig("U", 1, 1, sys_flag=3)}
VERSION = {"counter": 3, "timestamp": 1700000000000}
BROKER: dict[str, Any] = {
    "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": 0,
}  # fmt: skip


@pytest.fixture
def client(connect: Connect) -> RawClient:
    return connect()


def register(client: RawClient, *, version: int = 409, **changes: Any) -> Command:
    fields = {**BROKER, "haServerAddr": "127.0.0.1:10912", "bodyCrc32": 0, **changes}
    sample = Registration(VERSION, TOPICS)
    if fields.get("compressed") == "true":
        body = registration.encode_compressed(sample, version)
    else:
        body = registration.encode(sample)
    if fields["bodyCrc32"] == "right":
        fields["bodyCrc32"] = crc32(body) & 0x7FFFFFFF
    return client.ask(Q.REGISTER_BROKER, body, version_=version, **fields)


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_registration_and_route(client: RawClient, connect: Connect, compressed: str) -> None:
    broker = connect()
    answer = client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T")
    assert (answer.code, answer.remark) == (
        17,
        "No topic route info in name server for the topic: T\n"
        "See http://rocketmq.apache.org/docs/faq/ for further details.",
    )
    assert register(broker, compressed=compressed, bodyCrc32="right").code == R.SUCCESS
    route = client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T")
    assert route.body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"C"}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    old = client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T", version_=400)
    assert b"{0:" in bytes(old.body)
    asked = client.ask(
        Q.GET_ROUTEINFO_BY_TOPIC, topic="T", version_=400, acceptStandardJsonOnly="true"
    )
    assert asked.body == route.body


def test_answers_are_in_the_serialisation_of_the_request(client: RawClient) -> None:
    binary = client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="none", serialization_=Serialization.BINARY)
    assert (binary.code, binary.serialization) == (17, Serialization.BINARY)
    assert client.ask(Q.GET_NAMESRV_CONFIG).serialization is Serialization.JSON


def test_a_broker_goes_with_its_connection(client: RawClient, connect: Connect) -> None:
    broker = connect()
    register(broker)
    broker.close()
    deadline = time.monotonic() + 30
    while client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T").code == R.SUCCESS:
        assert time.monotonic() < deadline
    assert json.loads(client.ask(Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body) == {"topicList": []}


def test_a_silent_broker_is_taken_out(client: RawClient) -> None:
    register(client, heartbeatTimeoutMillis=1)
    deadline = time.monotonic() + 30
    while client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T").code == R.SUCCESS:
        assert time.monotonic() < deadline


def test_masters_and_slaves(client: RawClient) -> None:
    register(client)
    slave = register(client, brokerId=1, brokerAddr="127.0.0.1:10921")
    assert slave.ext == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"}
    assert client.ask(Q.UNREGISTER_BROKER, **BROKER).code == R.SUCCESS
    route = json.loads(client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T").body)
    assert route["brokerDatas"][0]["brokerAddrs"] == {"1": "127.0.0.1:10921"}
    info = client.ask(Q.GET_BROKER_CLUSTER_INFO)
    assert info.body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{1:"127.0.0.1:10921"},'
        b'"brokerName":"broker-a","cluster":"C"}},"clusterAddrTable":{"C":["broker-a"]}}'
    )


def test_damaged_registrations(client: RawClient) -> None:
    assert register(client, bodyCrc32=5).remark == "crc32 not match"
    answer = client.ask(
        Q.REGISTER_BROKER, b"{", brokerName="b", brokerAddr="a:1", clusterName="C", brokerId=0
    )
    assert answer.code == R.SYSTEM_ERROR
    missing = client.ask(Q.REGISTER_BROKER, brokerName="b")
    assert (missing.code, missing.remark) == (1, "the field clusterName is missing")


def test_data_version(client: RawClient) -> None:
    version = json.dumps(VERSION).encode()
    unknown = client.ask(Q.QUERY_DATA_VERSION, version, **BROKER)
    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    register(client)
    known = client.ask(Q.QUERY_DATA_VERSION, version, **BROKER)
    assert known.ext == {"changed": "false"}
    assert json.loads(known.body) == VERSION
    newer = client.ask(Q.QUERY_DATA_VERSION, b'{"counter":4}', **BROKER)
    assert newer.ext == {"changed": "true"}


def test_write_permission(client: RawClient) -> None:
    register(client)

    def permissions() -> list[int]:
        route = json.loads(client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T").body)
        return [queue["perm"] for queue in route["queueDatas"]]

    wiped = client.ask(Q.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert (wiped.ext, permissions()) == ({"wipeTopicCount": "2"}, [4])
    added = client.ask(Q.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert (added.ext, permissions()) == ({"addTopicCount": "2"}, [6])
    assert client.ask(Q.WIPE_WRITE_PERM_OF_BROKER, brokerName="x").ext == {"wipeTopicCount": "0"}


def test_topic_lists(client: RawClient) -> None:
    register(client)

    def topics(code: int, **fields: Any) -> list[str]:
        listed: list[str] = json.loads(client.ask(code, **fields).body)["topicList"]
        return listed

    assert topics(Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["T", "U"]
    assert topics(Q.GET_TOPICS_BY_CLUSTER, cluster="C") == ["T", "U"]
    assert topics(Q.GET_TOPICS_BY_CLUSTER, cluster="none") == []
    assert topics(Q.GET_UNIT_TOPIC_LIST) == ["U"]
    assert topics(Q.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["U"]
    assert topics(Q.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == []
    system = json.loads(client.ask(Q.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert system == {"brokerAddr": "127.0.0.1:10911", "topicList": ["C", "broker-a"]}
    assert client.ask(Q.DELETE_TOPIC_IN_NAMESRV, topic="T").code == R.SUCCESS
    assert topics(Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["U"]


def test_stored_values(client: RawClient, settings: NamesrvSettings) -> None:
    where: dict[str, Any] = {"namespace": "NS", "key": "k"}
    assert client.ask(Q.GET_KV_CONFIG, **where).remark == "No config item, Namespace: NS Key: k"
    assert client.ask(Q.PUT_KV_CONFIG, value="v=1;中文", **where).code == R.SUCCESS
    assert client.ask(Q.GET_KV_CONFIG, **where).ext == {"value": "v=1;中文"}
    assert client.ask(Q.PUT_KV_CONFIG, value="", namespace="NS2", key="k").code == R.SUCCESS
    assert client.ask(Q.GET_KV_CONFIG, namespace="NS2", key="k").ext == {"value": ""}
    assert client.ask(Q.PUT_KV_CONFIG, **where).remark == "the field value is missing"
    client.ask(Q.DELETE_KV_CONFIG, namespace="NS2", key="k")
    listed = client.ask(Q.GET_KVLIST_BY_NAMESPACE, namespace="NS")
    assert json.loads(listed.body) == {"table": {"k": "v=1;中文"}}
    with open(settings.kv_config_path, encoding="utf-8") as file:
        assert json.load(file)["configTable"]["NS"] == {"k": "v=1;中文"}
    assert client.ask(Q.DELETE_KV_CONFIG, **where).code == R.SUCCESS
    assert client.ask(Q.GET_KV_CONFIG, **where).code == R.QUERY_NOT_FOUND
    assert client.ask(Q.GET_KVLIST_BY_NAMESPACE, namespace="X").code == R.QUERY_NOT_FOUND


def test_order_topics(client: RawClient, settings: NamesrvSettings) -> None:
    client.ask(Q.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    assert json.loads(register(client).body) == {"table": {"T": "broker-a:4"}}
    settings.order_message_enable = True
    route = json.loads(client.ask(Q.GET_ROUTEINFO_BY_TOPIC, topic="T").body)
    assert route["orderTopicConf"] == "broker-a:4"


def test_own_configuration(client: RawClient, settings: NamesrvSettings) -> None:
    assert client.ask(Q.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\n").code == R.SUCCESS
    assert settings.order_message_enable
    assert b"orderMessageEnable=true\n" in bytes(client.ask(Q.GET_NAMESRV_CONFIG).body)
    assert client.ask(Q.UPDATE_NAMESRV_CONFIG, b"new=1\nclusterTest=true\n").code == R.SUCCESS
    with open(settings.config_store_path, encoding="utf-8") as file:
        assert file.read() == "orderMessageEnable=true\nclusterTest=true\n"
    settings.config_black_list = "productEnvName"
    for name in ("kvConfigPath", "rocketmqHome", "tls.server.mode", "productEnvName"):
        refused = client.ask(Q.UPDATE_NAMESRV_CONFIG, f"{name}=x\n".encode())
        assert (refused.code, refused.remark) == (16, "Can not update config in black list.")
    for body in (b"orderMessageEnable=maybe", b"\xff"):
        assert client.ask(Q.UPDATE_NAMESRV_CONFIG, body).code == R.SYSTEM_ERROR


def test_unknown_requests(client: RawClient) -> None:
    answer = client.ask(9999)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_every_code_of_the_name_server_is_answered(client: RawClient) -> None:
    for kind in COMMANDS:
        if kind.server == "name server":
            assert client.ask(kind.code).code != R.REQUEST_CODE_NOT_SUPPORTED, kind

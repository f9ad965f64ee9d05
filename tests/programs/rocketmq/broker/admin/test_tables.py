"""Topics, groups and the configuration, made, changed, deleted and listed by tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import DiskFullError, StorageError
from penstock.core.settings import java_properties
from penstock.core.units import HOUR
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.group_table import GroupTable
from penstock.rocketmq.broker.state.topic_table import TopicTable
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.retention import Retention
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import make_topic


def config(client: RawClient, topic: str) -> Any:
    return json.loads(client.ask(Code.GET_TOPIC_CONFIG, topic=topic).body)


def table(client: RawClient) -> Any:
    return json.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG).body)


def test_making_and_changing(client: RawClient) -> None:
    before = table(client)
    assert make_topic(client, "T", 3, writeQueueNums=2).code == 0
    assert config(client, "T") == {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 3,
        "topicFilterType": "SINGLE_TAG", "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 2,
    }  # fmt: skip
    after = table(client)
    assert after["topicConfigTable"].keys() - before["topicConfigTable"].keys() == {"T"}
    assert after["dataVersion"]["counter"] == before["dataVersion"]["counter"] + 1
    make_topic(client, "T", 8, perm=4, topicSysFlag=1, topicFilterType="MULTI_TAG")
    changed = config(client, "T")
    assert (changed["perm"], changed["writeQueueNums"], changed["topicSysFlag"]) == (4, 8, 1)
    assert changed["topicFilterType"] == "MULTI_TAG"
    body = json.loads(client.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)
    wanted = {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert wanted <= set(body["topicList"])


def test_order_and_attributes_are_kept_over_a_restart(client: RawClient, tmp_path: Path) -> None:
    def shaped() -> tuple[dict[str, str], bool]:
        found = config(client, "T")
        assert found == table(client)["topicConfigTable"]["T"]
        return found["attributes"], found["order"]

    fifo = {"message.type": "FIFO"}
    assert make_topic(client, "T", attributes="+message.type=FIFO", order="true").code == 0
    assert shaped() == (fifo, True)
    assert make_topic(client, "T", 8, order="").code == 0, "no word about either"
    assert shaped() == (fifo, True)
    again = TopicTable()
    again.load(json.loads((tmp_path / "config" / "topics.json").read_text()))
    assert again.configs["T"] == TopicConfig("T", 8, 8, order=True, attributes=fifo)
    make_topic(client, "T", attributes="+message.type=DELAY")
    assert shaped() == ({"message.type": "DELAY"}, False)
    make_topic(client, "T", attributes="-message.type")
    assert shaped()[0] == {}
    mixed = make_topic(client, "T", attributes="+message.type=MIXED")
    assert mixed.code == ResponseCode.INVALID_PARAMETER


def test_a_list_of_topics_has_attributes_too(client: RawClient) -> None:
    code = Code.UPDATE_AND_CREATE_TOPIC_LIST
    listed = [{"topicName": "A", "attributes": {"+message.type": "DELAY"}}, {"topicName": "B"}]
    assert client.ask(code, json.dumps({"topicConfigList": listed}).encode()).code == 0
    assert config(client, "A")["attributes"] == {"message.type": "DELAY"}
    read = config(client, "A")
    assert client.ask(code, json.dumps({"topicConfigList": [read]}).encode()).code == 0
    assert config(client, "A") == read
    refused = client.ask(code, b'{"topicConfigList":[{"topicName":"B","attributes":{"x":"y"}}]}')
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "wrong format key: x")


@pytest.mark.parametrize(
    ("topic", "fields", "words"),
    [
        ("a b", {}, "contains illegal characters"),
        ("x" * 128, {}, "longer than topic max length"),
        ("TBW102", {}, "The topic[TBW102] is conflict with system topic."),
        ("DefaultCluster", {}, "is conflict with system topic."),
        ("rmq_sys_x", {}, "is conflict with system topic."),
        ("T", {"topicFilterType": "ODD"}, "neither SINGLE_TAG nor MULTI_TAG"),
        ("T", {"writeQueueNums": 10_001}, "where 0 to 10000 are allowed"),
        ("T", {"readQueueNums": -1}, "where 0 to 10000 are allowed"),
        ("T", {"perm": 8}, "where 0 to 7 are allowed"),
        ("T", {"attributes": "+color=red"}, "unsupported key: color"),
        ("T", {"perm": ""}, "the field perm is missing"),
    ],
)
def test_topics_that_are_refused(client: RawClient, topic: str, fields: Any, words: str) -> None:
    answer = make_topic(client, topic, **fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert words in (answer.remark or "")
    missing = client.ask(Code.GET_TOPIC_CONFIG, topic="T")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST
    assert missing.remark == "No topic in this broker. topic: T"


def test_several_topics_at_once_or_none(client: RawClient) -> None:
    code = Code.UPDATE_AND_CREATE_TOPIC_LIST
    body = b'{"topicConfigList":[{"topicName":"A","perm":4},{"topicName":"B c"}]}'
    refused = client.ask(code, body)
    assert (refused.code, "illegal" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert client.ask(Code.GET_TOPIC_CONFIG, topic="A").code == ResponseCode.TOPIC_NOT_EXIST
    assert client.ask(code, body.replace(b"B c", b"B")).code == 0
    assert (config(client, "A")["perm"], config(client, "B")["readQueueNums"]) == (4, 16)
    for wrong in (b"[]", b"{}", b'{"topicConfigList":[{"topicName":"T","perm":9}]}'):
        assert client.ask(code, wrong).code == ResponseCode.SYSTEM_ERROR


@pytest.fixture
def filled(client: RawClient, rocket: RocketBroker, loop_thread: LoopThread) -> Services:
    """With a topic T of 12 queues, a message in the last one, and a group that has read it."""
    make_topic(client, "T", 12)
    loop_thread.run(store(rocket.services, "T", 11, b"body"))
    rocket.services.offsets.commit("T", "G", 11, 1)
    return rocket.services


def test_deleting_takes_messages_and_offsets(client: RawClient, filled: Services) -> None:
    assert filled.store.bounds("T", 11) == (0, 1)
    for _ in range(2):  # what is not there is deleted already
        assert client.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in filled.topics.configs
    assert "T" not in filled.node.broker.topics
    assert filled.offsets.of("T", "G") == {}
    make_topic(client, "T", 12)
    assert filled.store.bounds("T", 11) == (0, 0)
    refused = client.ask(Code.DELETE_TOPIC_IN_BROKER, topic="SCHEDULE_TOPIC_XXXX")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert client.ask(Code.DELETE_TOPIC_IN_BROKER).remark == "The specified topic is blank."


def test_deleting_makes_room_on_a_full_disk(
    client: RawClient, filled: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, save = filled.node.broker.topics, filled.files.save

    def save_if_there_is_room(name: str) -> None:
        if "T" in topics:
            raise DiskFullError("no space left on device")
        save(name)

    monkeypatch.setattr(filled.files, "save", save_if_there_is_room)
    assert client.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in topics
    path = f"{filled.settings.store_path_root_dir}/config/topics.json"
    assert b'"T"' not in (filled.files.disk.read_file(path) or b"")


def test_a_topic_that_cannot_be_deleted_goes_on_as_it_was(
    client: RawClient, filled: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config(client, "T")

    def refuse(_name: str) -> None:
        raise StorageError("Read-only file system")

    monkeypatch.setattr(filled.node.broker, "delete_topic", refuse)
    answer = client.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Read-only file system")
    assert config(client, "T") == before
    assert filled.offsets.of("T", "G") == {11: 1}
    monkeypatch.undo()
    assert client.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in filled.topics.configs
    assert filled.offsets.of("T", "G") == {}


# --- groups ---------------------------------------------------------------------------------------


def groups(client: RawClient) -> dict[str, Any]:
    body = client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
    found: dict[str, Any] = json.loads(body)["subscriptionGroupTable"]
    return found


def test_making_and_changing_is_on_disk_before_the_answer(
    client: RawClient, tmp_path: Path
) -> None:
    body = b'{"groupName":"G","retryMaxTimes":3,"consumeBroadcastEnable":false}'
    assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == 0
    assert groups(client)["G"]["retryMaxTimes"] == 3
    kept = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text())
    assert kept["subscriptionGroupTable"]["G"]["consumeBroadcastEnable"] is False


def test_what_5_x_adds_is_kept_over_a_restart(client: RawClient, tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "consumeMessageOrderly": True, "consumeTimeoutMinute": 7, "groupSysFlag": 1,
        "groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3]}},
    }  # fmt: skip
    code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    asked = {"groupName": "G", "attributes": {"+a": "b", "+c": "d"}, **more}
    assert client.ask(code, json.dumps(asked).encode()).code == 0
    more["attributes"] = {"a": "b", "c": "d"}
    one = json.loads(client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="G").body)
    assert one == groups(client)["G"]
    assert {name: one[name] for name in more} == more
    again = GroupTable()
    again.load(json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text()))
    assert again.configs["G"].as_json() == one
    assert client.ask(code, json.dumps({**one, "retryMaxTimes": 3}).encode()).code == 0
    assert groups(client)["G"] == {**one, "retryMaxTimes": 3}, "what was read may be put back"
    assert client.ask(code, b'{"groupName":"G","attributes":{"-a":"","+c":"e"}}').code == 0
    assert groups(client)["G"]["attributes"] == {"c": "e"}
    refused = client.ask(code, b'{"groupName":"G","attributes":{"-a":""}}')
    assert refused.remark == "attempt to delete a nonexistent key: a"


def test_several_groups_at_once_or_none(client: RawClient) -> None:
    code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    body = b'{"groupConfigList":[{"groupName":"A"},{"groupName":"B c"}]}'
    refused = client.ask(code, body)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "A" not in groups(client)
    assert client.ask(code, body.replace(b" c", b"")).code == 0
    assert {"A", "B"} <= groups(client).keys()
    assert client.ask(code, b"[]").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b'{"groupName":"a b"}', b'{"groupName":" "}', b'{"groupName":1}']
)
def test_groups_that_are_refused(client: RawClient, body: bytes) -> None:
    answer = client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


def test_deleting_with_and_without_offsets(client: RawClient, rocket: RocketBroker) -> None:
    offsets = rocket.services.offsets
    for flag, left in (("false", {0: 7}), ("true", {})):
        client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
        offsets.commit("T", "G", 0, 7)
        deleted = client.ask(Code.DELETE_SUBSCRIPTIONGROUP, groupName="G", removeOffset=flag)
        assert deleted.code == 0
        assert "G" not in groups(client)
        assert offsets.of("T", "G") == left
    assert client.ask(Code.DELETE_SUBSCRIPTIONGROUP, groupName="G").code == 0


def test_one_group(client: RawClient, rocket: RocketBroker) -> None:
    made = client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="new")
    assert json.loads(made.body)["groupName"] == "new"
    rocket.settings.auto_create_subscription_group = False
    missing = client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group="other")
    assert missing.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert missing.remark == "No group in this broker"


# --- the configuration ----------------------------------------------------------------------------


@pytest.fixture
def settings(settings: BrokerSettings, tmp_path: Path) -> BrokerSettings:
    settings.broker_config_path = str(tmp_path / "broker.properties")
    return settings


def update(client: RawClient, text: str) -> Command:
    return client.ask(Code.UPDATE_BROKER_CONFIG, text.encode())


def properties(client: RawClient) -> dict[str, str]:
    return java_properties.loads(client.ask(Code.GET_BROKER_CONFIG).body.decode())


def version(client: RawClient) -> Any:
    return json.loads(client.ask(Code.GET_BROKER_CONFIG).text("version"))


def test_changes_act_and_are_kept_for_the_next_start(client: RawClient, tmp_path: Path) -> None:
    assert version(client) == {"counter": 0, "timestamp": 0}
    named = {"brokerName": "broker-a", "brokerIP1": "127.0.0.1"}
    assert properties(client).items() >= named.items()
    (tmp_path / "broker.properties").write_text("brokerName=broker-a\n")
    assert update(client, "maxMessageSize=77\nbrokerNmae=x\nhaTransferBatchSize=1\n").code == 0
    assert properties(client)["maxMessageSize"] == "77"
    kept = java_properties.loads((tmp_path / "broker.properties").read_text())
    assert kept == {"brokerName": "broker-a", "maxMessageSize": "77", "haTransferBatchSize": "1"}
    assert version(client)["counter"] == 1
    assert update(client, "").code == 0


def test_permission_is_a_new_version_of_the_topics(client: RawClient, rocket: RocketBroker) -> None:
    told = []
    rocket.services.topics.listeners.append(
        lambda: told.append(rocket.services.topics.version.counter)
    )
    before = rocket.services.topics.version.counter
    assert update(client, "brokerPermission=4").code == 0
    assert told == [before + 1]


def test_messages_stay_as_long_as_was_said_last(
    client: RawClient, rocket: RocketBroker, tmp_path: Path
) -> None:
    services = rocket.services
    services.topics.put(TopicConfig("T", 4, 4), services.now_ms)
    topic = services.store.topic("T")
    theirs = services.store.topic("theirs")  # without a configuration: not RocketMQ's
    assert update(client, "fileReservedTime=48").code == 0
    assert properties(client)["fileReservedTime"] == "48"
    assert topic.retention == Retention(time_ns=48 * HOUR)
    assert theirs.retention is None
    kept = java_properties.loads((tmp_path / "broker.properties").read_text())
    assert kept["fileReservedTime"] == "48"


def test_automatic_topics_are_switched_off_and_on(client: RawClient, rocket: RocketBroker) -> None:
    topics = rocket.services.topics
    update(client, "autoCreateTopicEnable=false")
    assert topics.configs["TBW102"].perm == 6
    assert topics.make_for_send("New", "TBW102", 4, 1) is None
    update(client, "autoCreateTopicEnable=true\ndefaultTopicQueueNums=5")
    made = topics.make_for_send("New", "TBW102", 9, 1)
    assert made is not None
    assert made.write_queues == 5


def test_name_servers_are_left_and_joined(client: RawClient, rocket: RocketBroker) -> None:
    assert update(client, "namesrvAddr=127.0.0.1:1;127.0.0.1:2").code == 0
    assert rocket.services.name_servers is not None
    assert list(rocket.services.name_servers._links) == ["127.0.0.1:1", "127.0.0.1:2"]
    assert update(client, "namesrvAddr=").code == 0
    assert rocket.services.name_servers._links == {}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (b"brokerConfigPath=/x", 16, "Can not update config in black list."),
        (b"configBlackList=", 16, "Can not update config in black list."),
        (b"listenPort=1", 16, "listenPort cannot change while the broker runs"),
        (b"tls.server.mode=disabled", 16, "tls.server.mode cannot change while the broker runs"),
        (b"brokerPermission=9", 1, "brokerPermission must be 0 to 7"),
        (b"maxMessageSize=many", 1, "maxMessageSize must be a number"),
        (b"fileReservedTime=-1", 1, "fileReservedTime must not be negative"),
        (b"fileReservedTime=long", 1, "fileReservedTime must be a number"),
        (b"\xff=\xff", 1, "the properties are not UTF-8"),
    ],
)
def test_what_is_refused_changes_nothing(
    client: RawClient, tmp_path: Path, text: bytes, code: int, words: str
) -> None:
    before = properties(client)
    answer = client.ask(Code.UPDATE_BROKER_CONFIG, b"regionId=elsewhere\n%s\n" % text)
    assert answer.code == code
    assert words in (answer.remark or "")
    assert properties(client) == before
    assert not (tmp_path / "broker.properties").exists()

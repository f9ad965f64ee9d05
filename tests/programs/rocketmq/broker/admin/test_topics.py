"""Topics made, changed, deleted and listed by tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import DiskFullError, StorageError
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.state.topics import TopicTable
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]


def make(client: RawClient, topic: str, **fields: Any) -> Command:
    wanted = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 3, "writeQueueNums": 2,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "order": "false", **fields,
    }  # fmt: skip
    return client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **wanted)


def config(client: RawClient, topic: str) -> Any:
    return json.loads(client.ask(RequestCode.GET_TOPIC_CONFIG, topic=topic).body)


def test_making_and_changing(connect: Connect) -> None:
    client = connect()
    assert make(client, "T").code == 0
    assert config(client, "T") == {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 3,
        "topicFilterType": "SINGLE_TAG", "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 2,
    }  # fmt: skip
    make(client, "T", perm=4, writeQueueNums=8, topicSysFlag=1, topicFilterType="MULTI_TAG")
    changed = config(client, "T")
    assert (changed["perm"], changed["writeQueueNums"], changed["topicSysFlag"]) == (4, 8, 1)
    assert changed["topicFilterType"] == "MULTI_TAG"


def test_order_and_attributes_are_kept_over_a_restart(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    assert make(client, "T", attributes="+message.type=FIFO", order="true").code == 0
    assert (config(client, "T")["attributes"], config(client, "T")["order"]) == (
        {"message.type": "FIFO"}, True,
    )  # fmt: skip
    assert make(client, "T", writeQueueNums=8, order="").code == 0, "no word about either"
    table = json.loads(client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
    assert (table["T"]["attributes"], table["T"]["order"]) == ({"message.type": "FIFO"}, True)
    again = TopicTable()
    again.load(json.loads((tmp_path / "config" / "topics.json").read_text()))
    assert again.configs["T"] == TopicConfig(
        "T", 3, 8, order=True, attributes={"message.type": "FIFO"}
    )
    make(client, "T", attributes="+message.type=DELAY")
    assert (config(client, "T")["attributes"], config(client, "T")["order"]) == (
        {"message.type": "DELAY"}, False,
    )  # fmt: skip
    make(client, "T", attributes="-message.type")
    assert config(client, "T")["attributes"] == {}
    mixed = make(client, "T", attributes="+message.type=MIXED")
    assert mixed.code == ResponseCode.INVALID_PARAMETER


def test_a_list_of_topics_has_attributes_too(connect: Connect) -> None:
    client, code = connect(), RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
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
def test_what_is_refused(connect: Connect, topic: str, fields: Any, words: str) -> None:
    client = connect()
    answer = make(client, topic, **fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert words in (answer.remark or "")
    missing = client.ask(RequestCode.GET_TOPIC_CONFIG, topic="T")
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST
    assert missing.remark == "No topic in this broker. topic: T"


def test_several_at_once_or_none(connect: Connect) -> None:
    client, code = connect(), RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    body = b'{"topicConfigList":[{"topicName":"A","perm":4},{"topicName":"B c"}]}'
    refused = client.ask(code, body)
    assert (refused.code, "illegal" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert client.ask(RequestCode.GET_TOPIC_CONFIG, topic="A").code == ResponseCode.TOPIC_NOT_EXIST
    assert client.ask(code, body.replace(b"B c", b"B")).code == 0
    assert (config(client, "A")["perm"], config(client, "B")["readQueueNums"]) == (4, 16)
    for wrong in (b"[]", b"{}", b'{"topicConfigList":[{"topicName":"T","perm":9}]}'):
        assert client.ask(code, wrong).code == ResponseCode.SYSTEM_ERROR


def test_deleting_takes_messages_and_offsets(
    connect: Connect, rocket: RocketBroker, loop_thread: LoopThread
) -> None:
    client, services = connect(), rocket.services
    make(client, "T")
    loop_thread.run(services.store.append(Draft("T", 1, b"body")))
    services.offsets.commit("T", "G", 1, 1)
    assert services.store.bounds("T", 1) == (0, 1)
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in services.topics.configs
    assert "T" not in services.node.broker.topics
    assert services.offsets.of("T", "G") == {}
    make(client, "T")
    assert services.store.bounds("T", 1) == (0, 0)


def test_deleting_makes_room_on_a_full_disk(
    connect: Connect, rocket: RocketBroker, loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, services = connect(), rocket.services
    make(client, "T")
    loop_thread.run(services.store.append(Draft("T", 1, b"body")))
    topics, save = services.node.broker.topics, services.files.save

    def save_if_there_is_room(name: str) -> None:
        if "T" in topics:
            raise DiskFullError("no space left on device")
        save(name)

    monkeypatch.setattr(services.files, "save", save_if_there_is_room)
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in topics
    path = f"{services.settings.store_path_root_dir}/config/topics.json"
    assert b'"T"' not in (services.files.disk.read_file(path) or b"")


def test_a_topic_that_cannot_be_deleted_goes_on_as_it_was(
    connect: Connect, rocket: RocketBroker, loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, services = connect(), rocket.services
    make(client, "T", readQueueNums=12, writeQueueNums=12)
    before = config(client, "T")
    loop_thread.run(services.store.append(Draft("T", 11, b"body")))
    services.offsets.commit("T", "G", 11, 1)

    def refuse(_name: str) -> None:
        raise StorageError("Read-only file system")

    monkeypatch.setattr(services.node.broker, "delete_topic", refuse)
    answer = client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Read-only file system")
    assert config(client, "T") == before
    assert services.offsets.of("T", "G") == {11: 1}
    monkeypatch.undo()
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert "T" not in services.topics.configs
    assert services.offsets.of("T", "G") == {}


def test_deleting_what_is_not_there_is_success(connect: Connect) -> None:
    client = connect()
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Nope").code == 0
    refused = client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="SCHEDULE_TOPIC_XXXX")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER).remark == "The specified topic is blank."


def test_the_whole_table(connect: Connect) -> None:
    client = connect()
    before = json.loads(client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    make(client, "T")
    after = json.loads(client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert after["topicConfigTable"].keys() - before["topicConfigTable"].keys() == {"T"}
    assert after["dataVersion"]["counter"] == before["dataVersion"]["counter"] + 1


def test_system_topics(connect: Connect) -> None:
    body = json.loads(connect().ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)
    wanted = {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert wanted <= set(body["topicList"])

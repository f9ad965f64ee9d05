from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import topics
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    NAME_SERVER,
    FakeAdmin,
    answer,
    in_json,
    printed,
)

OK = answer()


def _changing() -> FakeAdmin:
    return FakeAdmin(
        {
            Code.UPDATE_AND_CREATE_TOPIC: OK, Code.DELETE_TOPIC_IN_BROKER: OK,
            Code.DELETE_TOPIC_IN_NAMESRV: OK, Code.PUT_KV_CONFIG: OK, Code.DELETE_KV_CONFIG: OK,
            Code.GET_KV_CONFIG: answer(value="b:1"),
        }
    )  # fmt: skip


def test_a_topic_of_a_cluster() -> None:
    admin = _changing()
    found = in_json(
        topics.update_topic, admin, topic="T", clusterName="C", writeQueueNums="3", unit="true",
        hasUnitSub="true",
    )  # fmt: skip
    assert found["results"] == [{"text": f"create topic to {BROKER} success.", "broker": BROKER}]
    fields = admin.fields(Code.UPDATE_AND_CREATE_TOPIC)[0]
    assert (fields["readQueueNums"], fields["writeQueueNums"], fields["perm"]) == (8, 3, 6)
    assert fields["topicSysFlag"] == 3
    assert "attributes" not in fields, "a broker of 4.9 is sent what its own tool sends"


def test_the_attributes_of_a_topic() -> None:
    admin = _changing()
    printed(topics.update_topic, admin, topic="T", brokerAddr=BROKER, attributes="+a=b,-c")
    assert admin.fields(Code.UPDATE_AND_CREATE_TOPIC)[0]["attributes"] == "+a=b,-c"


def test_an_ordered_topic_is_added_to_the_order_that_is_there() -> None:
    admin = _changing()
    text = printed(
        topics.update_topic, admin, topic="T", brokerAddr=BROKER, order="true", writeQueueNums="2"
    )
    assert text.startswith("set broker orderConf. isOrder=true, orderConf=[a:2]create topic to ")
    assert admin.fields(Code.PUT_KV_CONFIG)[0]["value"] == "b:1;a:2"


def test_an_ordered_topic_of_a_cluster() -> None:
    admin = _changing()
    printed(topics.update_topic, admin, topic="T", clusterName="C", order="true")
    assert admin.fields(Code.PUT_KV_CONFIG)[0]["value"] == "a:8"


def test_a_topic_is_deleted_on_brokers_and_at_name_servers() -> None:
    admin = _changing()
    text = printed(topics.delete_topic, admin, topic="T", clusterName="C")
    assert text == (
        "delete topic [T] from cluster [C] success.\ndelete topic [T] from NameServer success.\n"
    )
    assert [each[0] for each in admin.asked[-2:]] == [BROKER, NAME_SERVER]


def test_permissions() -> None:
    admin = _changing()
    text = printed(topics.update_topic_perm, admin, topic="T", brokerAddr=BROKER, perm="4")
    assert text.startswith(f"update topic perm from 6 to 4 in {BROKER} success.\nTopicConfig [")
    text = printed(topics.update_topic_perm, admin, topic="T", brokerAddr=BROKER, perm="6")
    assert text == "new perm equals to the old one!\n"
    with pytest.raises(CommandFailed, match="broker is not master"):
        printed(topics.update_topic_perm, admin, topic="T", brokerAddr="x:1", perm="6")


def test_each_broker_keeps_its_own_queues_when_permissions_change() -> None:
    admin = _changing()
    data = [{"brokerName": name, "cluster": "C", "brokerAddrs": {0: f"{name}:1"}} for name in "abc"]
    counts = {"a": 8, "b": 16}
    queues = [
        {"brokerName": name, "readQueueNums": count, "writeQueueNums": count + 1, "perm": count,
         "topicSysFlag": 0}
        for name, count in counts.items()
    ]  # fmt: skip
    admin.answers[Code.GET_ROUTEINFO_BY_TOPIC] = answer(
        {"brokerDatas": data[:2], "queueDatas": queues}
    )
    admin.answers[Code.GET_BROKER_CLUSTER_INFO] = answer(
        {
            "clusterAddrTable": {"C": ["a", "b", "c"]},
            "brokerAddrTable": {each["brokerName"]: each for each in data},
        }
    )
    text = printed(topics.update_topic_perm, admin, topic="T", clusterName="C", perm="4")
    assert "from 16 to 4 in b:1" in text
    printed(topics.update_topic_perm, admin, topic="T", brokerAddr="b:1", perm="4")
    told = [
        (address, fields["readQueueNums"], fields["writeQueueNums"])
        for address, code, fields, _ in admin.asked
        if code == Code.UPDATE_AND_CREATE_TOPIC
    ]
    assert told == [("a:1", 8, 9), ("b:1", 16, 17), ("c:1", 8, 9), ("b:1", 16, 17)]


def test_the_order_of_queues() -> None:
    admin = _changing()
    text = printed(topics.update_order_conf, admin, topic="T", method="get")
    assert text == "get orderConf success. topic=[T], orderConf=[b:1] "
    with pytest.raises(CommandFailed, match="please set orderConf with option -v"):
        printed(topics.update_order_conf, admin, topic="T", method="put")
    printed(topics.update_order_conf, admin, topic="T", method="put", orderConf="a:1")
    printed(topics.update_order_conf, admin, topic="T", method="delete")
    assert len(admin.fields(Code.PUT_KV_CONFIG)) == len(admin.fields(Code.DELETE_KV_CONFIG)) == 1


def test_an_order_that_is_not_there_is_begun() -> None:
    admin = _changing()
    admin.answers[Code.GET_KV_CONFIG] = Refused(22, "No config item")
    printed(topics.update_topic, admin, topic="T", brokerAddr=BROKER, order="true")
    assert admin.fields(Code.PUT_KV_CONFIG)[0]["value"] == "a:8"

from __future__ import annotations

from pathlib import Path

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import exports
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer, in_json, printed

TOPIC = {"topicName": "T", "readQueueNums": 2, "writeQueueNums": 2}
GROUP = {"groupName": "G", "retryQueueNums": 1}


def _admin() -> FakeAdmin:
    topics = {"T": TOPIC, "%RETRY%G": TOPIC, "TBW102": TOPIC}
    groups = {"G": GROUP, "TOOLS_CONSUMER": GROUP, "CID_RMQ_SYS_x": GROUP}
    return FakeAdmin(
        {
            Code.GET_ALL_TOPIC_CONFIG: answer({"topicConfigTable": topics}),
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: answer({"topicList": ["TBW102"]}),
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer({"subscriptionGroupTable": groups}),
            Code.GET_BROKER_CONFIG: answer(b"brokerName=a\nbrokerRole=ASYNC_MASTER\n"),
            Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"putTps": "1.5 0 0"}}),
            Code.VIEW_BROKER_STATS_DATA: Refused(1, "no"),
            Code.GET_CONSUMER_CONNECTION_LIST: answer(
                {"connectionSet": [{"clientId": "c", "language": "JAVA", "version": 407}]}
            ),
        }
    )


def test_topics_and_groups_without_the_systems(tmp_path: Path) -> None:
    text = printed(exports.export_metadata, _admin(), clusterName="C", filePath=str(tmp_path))
    assert text == f"export {tmp_path}/metadata.json success\n"
    found = fastjson.loads((tmp_path / "metadata.json").read_bytes())
    assert (list(found["topicConfigTable"]), list(found["subscriptionGroupTable"])) == (
        ["T"],
        ["G"],
    )


def test_one_broker(tmp_path: Path) -> None:
    given = {"brokerAddr": BROKER, "filePath": str(tmp_path)}
    printed(exports.export_metadata, _admin(), topic="", specialTopic="", **given)
    found = fastjson.loads((tmp_path / "topic.json").read_bytes())
    assert sorted(found["topicConfigTable"]) == ["%RETRY%G", "T"]
    printed(exports.export_metadata, _admin(), subscriptionGroup="", **given)
    assert (tmp_path / "subscriptionGroup.json").exists()


def test_queues_of_several_brokers_are_summed() -> None:
    merged = {"T": {"readQueueNums": 2}}
    exports._merge(merged, {"T": {"readQueueNums": 3}, "U": {"readQueueNums": 1}}, "readQueueNums")
    assert merged == {"T": {"readQueueNums": 5}, "U": {"readQueueNums": 1}}


def test_settings(tmp_path: Path) -> None:
    in_json(exports.export_configs, _admin(), clusterName="C", filePath=str(tmp_path))
    found = fastjson.loads((tmp_path / "configs.json").read_bytes())
    assert found["brokerConfigs"]["a"] == {
        "brokerName": "a", "brokerRole": "ASYNC_MASTER",
    }  # fmt: skip
    assert found["clusterScale"] == {
        "namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0,
    }  # fmt: skip


def test_figures(tmp_path: Path) -> None:
    printed(exports.export_metrics, _admin(), clusterName="C", filePath=str(tmp_path))
    found = fastjson.loads((tmp_path / "metrics.json").read_bytes())
    assert found["totalData"]["totalTps"]["totalNormalInTps"] == 1.5
    assert found["evaluateReport"]["a"]["runtimeVersion"]["clientInfo"] == ["JAVA%V4_9_7"]

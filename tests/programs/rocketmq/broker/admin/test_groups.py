"""Groups made, changed, deleted and listed by tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.state.groups import GroupTable
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from tools.harness.rocketmq.raw_client import RawClient

Connect = Callable[[], RawClient]


def groups(client: RawClient) -> dict[str, Any]:
    body = client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
    found: dict[str, Any] = json.loads(body)["subscriptionGroupTable"]
    return found


def test_making_and_changing_is_on_disk_before_the_answer(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    body = b'{"groupName":"G","retryMaxTimes":3,"consumeBroadcastEnable":false}'
    assert client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == 0
    assert groups(client)["G"]["retryMaxTimes"] == 3
    kept = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text())
    assert kept["subscriptionGroupTable"]["G"]["consumeBroadcastEnable"] is False


def test_what_5_x_adds_is_kept_over_a_restart(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    more: dict[str, Any] = {
        "consumeMessageOrderly": True, "consumeTimeoutMinute": 7, "groupSysFlag": 1,
        "groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3]}},
    }  # fmt: skip
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    asked = {"groupName": "G", "attributes": {"+a": "b", "+c": "d"}, **more}
    assert client.ask(code, json.dumps(asked).encode()).code == 0
    more["attributes"] = {"a": "b", "c": "d"}
    one = json.loads(client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="G").body)
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


def test_several_at_once_or_none(connect: Connect) -> None:
    client = connect()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    body = b'{"groupConfigList":[{"groupName":"A"},{"groupName":"B c"}]}'
    refused = client.ask(code, body)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "A" not in groups(client)
    assert client.ask(code, body.replace(b" c", b"")).code == 0
    assert {"A", "B"} <= groups(client).keys()
    assert client.ask(code, b"[]").code == ResponseCode.SYSTEM_ERROR


def test_what_is_refused(connect: Connect) -> None:
    client = connect()
    for body in (
        b"",
        b"{",
        b"{}",
        b'{"groupName":"a b"}',
        b'{"groupName":" "}',
        b'{"groupName":1}',
    ):
        answer = client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR, body
        assert answer.remark


def test_deleting_with_and_without_offsets(connect: Connect, rocket: RocketBroker) -> None:
    client, offsets = connect(), rocket.services.offsets
    for flag, left in (("false", {0: 7}), ("true", {})):
        client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"G"}')
        offsets.commit("T", "G", 0, 7)
        deleted = client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", removeOffset=flag)
        assert deleted.code == 0
        assert "G" not in groups(client)
        assert offsets.of("T", "G") == left
    assert client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G").code == 0


def test_one_group(connect: Connect, rocket: RocketBroker) -> None:
    client = connect()
    made = client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="new")
    assert json.loads(made.body)["groupName"] == "new"
    rocket.settings.auto_create_subscription_group = False
    missing = client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="other")
    assert missing.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert missing.remark == "No group in this broker"

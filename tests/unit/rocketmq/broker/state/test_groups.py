"""Consumer groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.broker.state import groups as groups_module
from penstock.rocketmq.broker.state.groups import GroupConfig, GroupTable
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

FIXTURES = Path(__file__).parents[4] / "fixtures" / "rocketmq"


def test_as_java_prints_it() -> None:
    """5.x's classes; the sample is theirs."""
    lines = (FIXTURES / "java_bodies.txt").read_text().splitlines()
    bodies = dict(line.partition(" ")[::2] for line in lines)
    made = fastjson.dumps(GroupConfig("CG").as_json()).decode()
    assert made == bodies["SubscriptionGroupConfig"]


def test_all_that_5_x_knows_of_a_group_is_kept() -> None:
    value = {
        **GroupConfig("CG").as_json(), "consumeMessageOrderly": True, "consumeTimeoutMinute": 3,
        "groupSysFlag": 5, "attributes": {"a": "b"},
        "groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {
            "initial": 1, "max": 9, "multiplier": 2}},
        "subscriptionDataSet": [{"topic": "T", "expression": "*", "expressionType": "TAG"}],
    }  # fmt: skip
    assert GroupConfig.from_json(value).as_json() == value


def test_reading() -> None:
    config = GroupConfig.from_json({"groupName": "CG", "retryMaxTimes": 3, "attributes": {}})
    assert config == GroupConfig("CG", retry_max_times=3)
    bad: list[Any] = [
        None, {}, {"groupName": 1}, {"groupName": "g", "retryMaxTimes": True},
        {"groupName": "g", "consumeEnable": 1}, {"groupName": "g", "retryQueueNums": 10_001},
        {"groupName": "g", "attributes": []}, {"groupName": "g", "groupRetryPolicy": 1},
        {"groupName": "g", "subscriptionDataSet": {}}, {"groupName": "g", "groupSysFlag": "1"},
    ]  # fmt: skip
    for value in bad:
        with pytest.raises(BodyError):
            GroupConfig.from_json(value)


def test_the_table() -> None:
    groups = GroupTable()
    assert groups.find("g", 5, auto_create=False) is None
    made = groups.find("g", 5, auto_create=True)
    assert groups.find("g", 6, auto_create=False) is made
    assert groups.as_json()["dataVersion"] == {"counter": 1, "timestamp": 5}
    assert groups.delete("g", 7) is made
    assert groups.delete("g", 8) is None
    assert groups.as_json()["subscriptionGroupTable"] == {}


def test_what_was_kept_is_loaded() -> None:
    groups, again = GroupTable(), GroupTable()
    groups.put(GroupConfig("g", retry_max_times=3), 5)
    again.load(groups.as_json())
    assert again == groups
    values: list[Any] = [
        None, {}, {"subscriptionGroupTable": []}, {"subscriptionGroupTable": {"g": 1}}
    ]  # fmt: skip
    for value in values:
        with pytest.raises(BodyError):
            again.load(value)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "GROUPS_MAX", 2)
    groups = GroupTable()
    groups.put(GroupConfig("a"), 1)
    with pytest.raises(BodyError, match="more than 2 consumer groups"):
        groups.put_all([GroupConfig("b"), GroupConfig("c")], 2)
    assert list(groups.configs) == ["a"]
    groups.put_all([GroupConfig("b"), GroupConfig("a", retry_max_times=3)], 3)
    assert groups.find("c", 4, auto_create=False) is None
    with pytest.raises(BodyError):
        groups.find("c", 4, auto_create=True)
    assert groups.configs["a"].retry_max_times == 3

from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import brokers
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    QUEUE,
    FakeAdmin,
    answer,
    in_json,
    printed,
)


def test_figures_of_a_broker_and_of_a_cluster() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"b": "2", "a": "1"}})})
    text = printed(brokers.broker_status, admin, brokerAddr=BROKER)
    assert text == f"{'a':<32}: 1\n{'b':<32}: 2\n"
    found = in_json(brokers.broker_status, admin, clusterName="C")["figures"]
    assert found[0] == {"broker": BROKER, "name": "a", "value": "1"}


def test_settings_are_shown_and_changed() -> None:
    admin = FakeAdmin(
        {Code.GET_BROKER_CONFIG: answer(b"b=2\na=1\n"), Code.UPDATE_BROKER_CONFIG: answer()}
    )
    text = printed(brokers.get_broker_config, admin, clusterName="C")
    assert text.startswith(f"============Master: {BROKER}============\na{' ' * 49}=  1\n")
    text = printed(brokers.update_broker_config, admin, clusterName="C", key="a", value="x y")
    assert text == f"update broker config success, {BROKER}\n"
    assert admin.asked[-1][3] == b"a=x y\n"
    with pytest.raises(UsageWanted):
        printed(brokers.update_broker_config, admin, key="a", value="1")
    admin.answers[Code.UPDATE_BROKER_CONFIG] = Refused(1, "no")
    text = printed(brokers.update_broker_config, admin, clusterName="C", key="a", value="1")
    assert text == f"update broker config failed, {BROKER}: CODE: 1  DESC: no\n"


def test_groups_of_a_broker_above_a_lag() -> None:
    stats = {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 7}}
    found = {"consumeStatsList": [{"G": [{"offsetTable": stats}]}], "totalDiff": 5}
    admin = FakeAdmin({Code.GET_BROKER_CONSUME_STATS: answer(found)})
    shown = in_json(brokers.broker_consume_stats, admin, brokerAddr=BROKER, level="5")
    assert (shown["queues"][0]["diff"], shown["diffTotal"]) == (5, 5)
    shown = in_json(brokers.broker_consume_stats, admin, brokerAddr=BROKER, level="6")
    assert shown["queues"] == []

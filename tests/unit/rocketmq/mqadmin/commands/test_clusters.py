from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.commands import clusters
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    FakeAdmin,
    answer,
    in_json,
    interrupted,
    printed,
)

FIGURES = {
    "putTps": "1.5 0 0", "getTransferedTps": "2.5 0 0", "brokerVersionDesc": "V4_9_8",
    "sendThreadPoolQueueSize": "0", "sendThreadPoolQueueHeadWaitTimeMills": "1",
    "commitLogDiskRatio": "0.36", "msgPutTotalYesterdayMorning": "1",
    "msgPutTotalTodayMorning": "4", "msgPutTotalTodayNow": "9",
}  # fmt: skip


def test_the_load_of_brokers() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})})
    text = printed(clusters.list_clusters, admin)
    assert "     1.50(0,1ms)" in text
    row = in_json(clusters.list_clusters, admin)["brokers"][0]
    assert (row["id"], row["address"], row["in"], row["space"]) == (0, BROKER, 1.5, 0.36)


def test_what_came_and_went() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})})
    row = in_json(clusters.list_clusters, admin, moreStats="")["brokers"][0]
    assert (row["inYesterday"], row["inToday"], row["outToday"]) == (3, 5, 0)


def test_a_broker_that_does_not_answer_is_shown_without_figures() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: Refused(1, "no")})
    row = in_json(clusters.list_clusters, admin)["brokers"][0]
    assert (row["broker"], row["version"], row["in"]) == ("a", "", 0.0)


def test_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "pause", interrupted)
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": FIGURES})})
    with pytest.raises(KeyboardInterrupt):
        printed(clusters.list_clusters, admin, interval="5")

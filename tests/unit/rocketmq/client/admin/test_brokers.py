from __future__ import annotations

from penstock.rocketmq.client.admin.brokers import runtime_info
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_figures_are_texts() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"putTps": 1}})})
    assert admin.do(runtime_info(admin, BROKER)) == {"putTps": "1"}

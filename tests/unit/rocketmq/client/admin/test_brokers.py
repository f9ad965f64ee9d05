from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.brokers import (
    Cleaning,
    broker_config,
    clean,
    rates,
    runtime_info,
    set_broker_config,
)
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_figures_are_texts() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"putTps": 1}})})
    assert admin.do(runtime_info(admin, BROKER)) == {"putTps": "1"}


@pytest.mark.parametrize(
    ("day", "hour", "expected"), [(9, 4, 9), (0, 4, 4), (0, 0, 1)], ids=["day", "hour", "minute"]
)
def test_a_day_that_is_not_summed_up_is_its_last_part(day: int, hour: int, expected: int) -> None:
    spans = {
        "statsDay": {"sum": day}, "statsHour": {"sum": hour}, "statsMinute": {"sum": 1, "tps": 0.5},
    }  # fmt: skip
    admin = FakeAdmin({Code.VIEW_BROKER_STATS_DATA: answer(spans)})
    assert admin.do(rates(admin, BROKER, "TOPIC_PUT_NUMS", "T")) == (0.5, expected)


def test_settings_are_properties() -> None:
    admin = FakeAdmin(
        {Code.GET_BROKER_CONFIG: answer(b"a=1\n"), Code.UPDATE_BROKER_CONFIG: answer()}
    )
    assert admin.do(broker_config(admin, BROKER)) == {"a": "1"}
    admin.do(set_broker_config(admin, BROKER, {"a": "2"}))
    assert admin.asked[-1][3].strip() == b"a=2"


def test_each_cleaning_is_a_request() -> None:
    codes = [
        Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG, Code.CLEAN_UNUSED_TOPIC,
    ]  # fmt: skip
    admin = FakeAdmin({code: answer() for code in codes})
    for what in Cleaning:
        admin.do(clean(admin, BROKER, what))
    assert [code for _, code, _, _ in admin.asked] == codes

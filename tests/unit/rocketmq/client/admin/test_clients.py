from __future__ import annotations

from penstock.rocketmq.client.admin.clients import (
    consumers,
    producers,
    producers_of,
    running_info,
)
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer


def test_a_group_and_a_member_are_named() -> None:
    admin = FakeAdmin(
        {
            Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": []}),
            Code.GET_CONSUMER_RUNNING_INFO: answer({"jstack": "stack"}),
        }
    )
    assert admin.do(consumers(admin, BROKER, "G")) == {"connectionSet": []}
    assert admin.do(running_info(admin, BROKER, "G", "me", jstack=True)) == {"jstack": "stack"}
    assert [fields for _, _, fields, _ in admin.asked] == [
        {"consumerGroup": "G"},
        {"consumerGroup": "G", "clientId": "me", "jstackEnable": "true"},
    ]


def test_producers_of_a_broker_and_of_a_group() -> None:
    admin = FakeAdmin(
        {
            Code.GET_ALL_PRODUCER_INFO: answer({"data": {"P": []}}),
            Code.GET_PRODUCER_CONNECTION_LIST: answer({"connectionSet": []}),
        }
    )
    assert admin.do(producers(admin, BROKER)) == {"P": []}
    assert admin.do(producers_of(admin, BROKER, "P")) == {"connectionSet": []}
    assert admin.fields(Code.GET_PRODUCER_CONNECTION_LIST) == [{"producerGroup": "P"}]

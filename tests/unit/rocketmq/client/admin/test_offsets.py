from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.admin.offsets import (
    TO_THE_END,
    end_offset,
    first_offset,
    offset_at,
    offset_to_go_on_at,
    progress,
    reset_members,
)
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, QUEUE, FakeAdmin, answer

PLACE = MessageQueue("a", 0, "T")


def test_bounds_and_the_offset_at_a_time() -> None:
    admin = FakeAdmin(
        {
            Code.GET_MIN_OFFSET: answer(offset=1), Code.GET_MAX_OFFSET: answer(offset=9),
            Code.SEARCH_OFFSET_BY_TIMESTAMP: answer(offset=6),
        }
    )  # fmt: skip
    assert admin.do(first_offset(admin, BROKER, PLACE)) == 1
    assert admin.do(end_offset(admin, BROKER, PLACE)) == 9
    assert admin.do(offset_to_go_on_at(admin, BROKER, PLACE, TO_THE_END)) == 9
    assert admin.do(offset_to_go_on_at(admin, BROKER, PLACE, 5)) == 6
    assert admin.do(offset_at(admin, BROKER, PLACE, TO_THE_END)) == 6
    wanted = {"topic": "T", "queueId": "0", "timestamp": "5"}
    assert admin.fields(Code.SEARCH_OFFSET_BY_TIMESTAMP) == [
        wanted,
        wanted | {"timestamp": "-1"},
    ]


def test_a_group_that_was_never_there_is_at_the_beginning() -> None:
    bounds = {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}
    admin = FakeAdmin(
        {
            Code.GET_CONSUME_STATS: answer({}),
            Code.GET_TOPIC_STATS_INFO: answer({"offsetTable": {QUEUE: bounds}}),
        }
    )
    found = admin.do(progress(admin, BROKER, "G", "T"))
    assert [(each.broker_offset, each.consumer_offset) for each in found.values()] == [(9, 2)]


@pytest.mark.parametrize(
    ("table", "cpp"),
    [
        ({QUEUE: 7}, False),
        ([{"brokerName": "a", "queueId": 0, "topic": "T", "offset": 7}], True),
    ],
)
def test_the_members_of_a_group_are_told(table: Any, cpp: bool) -> None:
    admin = FakeAdmin({Code.INVOKE_BROKER_TO_RESET_OFFSET: answer({"offsetTable": table})})
    found = admin.do(reset_members(admin, BROKER, "G", "T", 5, cpp=cpp))
    assert found == {PLACE: 7}
    assert admin.language is (Language.CPP if cpp else Language.PYTHON)

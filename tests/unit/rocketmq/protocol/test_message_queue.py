"""Queues as clients name them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue, queue_order

QUEUE = MessageQueue("b", 3, "T")


def test_as_json_and_back() -> None:
    text = fastjson.dumps(QUEUE._asdict())
    assert text == b'{"brokerName":"b","queueId":3,"topic":"T"}'
    assert MessageQueue.from_json(fastjson.loads(text)) == QUEUE


def test_as_a_key() -> None:
    assert fastjson.dumps({QUEUE: 1}) == b'{{"brokerName":"b","queueId":3,"topic":"T"}:1}'


@pytest.mark.parametrize(
    "change", [{"brokerName": 1}, {"topic": None}, {"queueId": "3"}, {"queueId": True},
               {"topic": "T" * 256}, {"brokerName": "b" * 256}]
)  # fmt: skip
def test_what_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(BodyError):
        MessageQueue.from_json({**QUEUE._asdict(), **change})
    with pytest.raises(BodyError):
        MessageQueue.from_json([change])


def test_queues_are_sorted_by_topic_then_broker_then_number() -> None:
    queues = [MessageQueue("b", 0, "T"), MessageQueue("a", 10, "T"), MessageQueue("a", 2, "T")]
    assert [each.queueId for each in sorted(queues, key=queue_order)] == [2, 10, 0]

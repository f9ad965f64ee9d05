"""The texts by which popped messages are told apart."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.pop_info import (
    BITS_MAX,
    BatchAck,
    QueueCounts,
    Receipt,
    message_offset_info,
    order_count_info,
    start_offset_info,
)


def test_a_receipt() -> None:
    assert Receipt.parse("5 1700 60000 0 0 broker-a 3 7") == Receipt(1700, 60000, 0)
    assert Receipt.parse("5 1700 60000 999") == Receipt(1700, 60000, 999)


@pytest.mark.parametrize("text", ["", "5 1700 60000", "a b c d", "5 1700 60000 x 0 b 3"])
def test_no_receipt(text: str) -> None:
    with pytest.raises(BodyError, match="extra info"):
        Receipt.parse(text)


def test_places() -> None:
    offsets = {0: [5, 6, 9], 3: [1]}
    assert start_offset_info(offsets) == "0 0 5;0 3 1"
    assert message_offset_info(offsets) == "0 0 5,6,9;0 3 1"
    assert start_offset_info({}) == message_offset_info({}) == ""


def test_how_often_messages_were_popped_in_order() -> None:
    found = [QueueCounts(0, 1, {5: 1, 6: 2}), QueueCounts(3, 0, {})]
    assert order_count_info(found) == "0 qo0%5 1;0 qo0%6 2;0 0 1;0 3 0"
    assert Receipt(1700, 60000, 999).is_in_order
    assert not Receipt(1700, 60000, 0).is_in_order


def entry(**changes: Any) -> dict[str, Any]:
    bits = base64.b64encode(bytes([0b101, 0b1])).decode()
    return {"c": "G", "t": "T", "r": "0", "so": 40, "q": 2, "rq": 0, "pt": 1700, "it": 60000,
            "b": bits, **changes}  # fmt: skip


def test_an_acknowledgement_of_several() -> None:
    ack = BatchAck.parse(entry())
    assert ack == BatchAck("G", "T", 2, Receipt(1700, 60000, 0), [40, 42, 48])
    long = {"consumerGroup": "G", "topic": "T", "startOffset": 40, "queueId": 2,
            "reviveQueueId": 0, "popTime": 1700, "invisibleTime": 60000,
            "bitSet": entry()["b"]}  # fmt: skip
    assert BatchAck.parse(long) == ack
    assert BatchAck.parse(entry(b="")).offsets == []


@pytest.mark.parametrize(
    "value",
    [
        None, [], entry(c=None), entry(t=""), entry(so="40"), entry(q=None), entry(pt=True),
        entry(b="not base64!"), entry(b=5),
        entry(b=base64.b64encode(bytes(BITS_MAX // 8 + 1)).decode()),
    ],
)  # fmt: skip
def test_no_acknowledgement(value: Any) -> None:
    with pytest.raises(BodyError):
        BatchAck.parse(value)


def test_all_acknowledgements_of_a_request() -> None:
    assert BatchAck.parse_all(b"") == BatchAck.parse_all(b"{}") == BatchAck.parse_all(b"[]") == []
    body = json.dumps({"acks": [entry(), entry()]}).encode()
    assert BatchAck.parse_all(body) == [BatchAck.parse(entry())] * 2
    with pytest.raises(BodyError, match="acks is no list"):
        BatchAck.parse_all(b'{"acks":1}')

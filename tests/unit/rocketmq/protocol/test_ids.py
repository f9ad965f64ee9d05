"""Texts by which things are told apart: hosts, message ids, hashes, queues, what was popped."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host, OffsetId, host_digits, java_hash
from penstock.rocketmq.protocol.message_queue import MessageQueue, queue_order
from penstock.rocketmq.protocol.pop_info import (
    BITS_MAX,
    BatchAck,
    QueueCounts,
    Receipt,
    message_offset_info,
    order_count_info,
    start_offset_info,
)


@pytest.mark.parametrize("text", ["10.0.0.2:10911", "[::1]:10911", "[2001:db8::7]:0"])
def test_hosts(text: str) -> None:
    host = Host.parse(text)
    assert str(host) == text
    assert OffsetId.parse(str(OffsetId(host, 1000))) == (host, 1000)


def test_offset_id() -> None:
    text = "0A00000200002A9F00000000000003E8"
    assert OffsetId.parse(text) == (Host.parse("10.0.0.2:10911"), 1000)
    assert OffsetId.parse(text.lower()) == OffsetId.parse(text)
    assert len(str(OffsetId(Host.parse("[::1]:1"), 1))) == 56
    assert host_digits(Host.parse("10.0.0.2:10911")) == text[:16], "ids of one broker begin alike"


@pytest.mark.parametrize("text", ["", "0", "zz" * 16, "0A" * 15, "0A" * 17, " " * 32, "0a " * 28])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(BodyError, match="no message id"):
        OffsetId.parse(text)


def test_java_hash() -> None:
    assert java_hash("TagA") == 2598919
    assert java_hash("TagB") == 2598920
    assert java_hash("") == 0
    assert java_hash("Aa") == java_hash("BB")
    assert java_hash("polygenelubricants") == -2147483648
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_the_host_of_a_socket() -> None:
    assert Host.of("10.1.2.3", 5) == Host(bytes((10, 1, 2, 3)), 5)
    assert Host.of("::ffff:10.1.2.3", 5) == Host(bytes((10, 1, 2, 3)), 5)
    assert Host.of("fe80::1%eth0", 5).is_ipv6


# --- queues ---------------------------------------------------------------------------------------

QUEUE = MessageQueue("b", 3, "T")


def test_a_queue_as_json_and_back() -> None:
    text = fastjson.dumps(QUEUE._asdict())
    assert text == b'{"brokerName":"b","queueId":3,"topic":"T"}'
    assert MessageQueue.from_json(fastjson.loads(text)) == QUEUE


@pytest.mark.parametrize(
    "change", [{"brokerName": 1}, {"topic": None}, {"queueId": "3"}, {"queueId": True},
               {"topic": "T" * 256}, {"brokerName": "b" * 256}]
)  # fmt: skip
def test_what_is_no_queue(change: dict[str, Any]) -> None:
    with pytest.raises(BodyError):
        MessageQueue.from_json({**QUEUE._asdict(), **change})
    with pytest.raises(BodyError):
        MessageQueue.from_json([change])


def test_queues_are_sorted_by_topic_then_broker_then_number() -> None:
    queues = [MessageQueue("b", 0, "T"), MessageQueue("a", 10, "T"), MessageQueue("a", 2, "T")]
    assert [each.queueId for each in sorted(queues, key=queue_order)] == [2, 10, 0]


# --- receipts of popped messages ------------------------------------------------------------------


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


BITS = base64.b64encode(bytes([0b101, 0b1])).decode()


def entry(**changes: Any) -> dict[str, Any]:
    return {"c": "G", "t": "T", "r": "0", "so": 40, "q": 2, "rq": 0, "pt": 1700, "it": 60000,
            "b": BITS, **changes}  # fmt: skip


def test_an_acknowledgement_of_several() -> None:
    ack = BatchAck.parse(entry())
    assert ack == BatchAck("G", "T", 2, Receipt(1700, 60000, 0), [40, 42, 48])
    long = {"consumerGroup": "G", "topic": "T", "startOffset": 40, "queueId": 2,
            "reviveQueueId": 0, "popTime": 1700, "invisibleTime": 60000,
            "bitSet": BITS}  # fmt: skip
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
    with pytest.raises(BodyError, match="acks is not a list"):
        BatchAck.parse_all(b'{"acks":1}')

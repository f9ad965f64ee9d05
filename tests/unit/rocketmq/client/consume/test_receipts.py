"""Receipts of popped messages, made of an answer's fields."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.receipts import Handout, Receipt, batch_of_acks
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.pop_info import BatchAck
from tools.harness.rocketmq.records import stored

FIELDS = {"popTime": "50", "invisibleTime": "60", "reviveQid": "7"}


def handout(starts: str = "", counts: str = "") -> Handout:
    return Handout.of(
        Command(0, ext=FIELDS | {"startOffsetInfo": starts, "orderCountInfo": counts})
    )


def test_a_receipt_begins_where_its_queue_was_popped_from() -> None:
    found = handout("0 3 8;1 0 4")
    assert str(found.receipt(stored(queue=3, offset=9), "a")) == "8 50 60 7 0 a 3 9"
    assert str(found.receipt(stored("%RETRY%G_T", offset=5), "a")) == "4 50 60 7 1 a 0 5"
    assert str(found.receipt(stored(queue=1, offset=2), "a")) == "2 50 60 7 0 a 1 2"


def test_a_receipt_leads_to_the_topic_that_its_message_was_popped_from() -> None:
    receipt = Receipt.parse("8 50 60 7 0 a 3", 9)
    assert receipt.offset == "9"
    topics = [receipt._replace(retry=each).topic("G", "T") for each in "012"]
    assert topics == ["T", "%RETRY%G_T", "%RETRY%G+T"]


def test_a_message_is_counted_by_its_offset_or_else_its_queue() -> None:
    found = handout(counts="0 qo3%8 2;0 3 1")
    assert found.count(stored(queue=3, offset=8)) == 2
    assert found.count(stored(queue=3, offset=9)) == 1
    assert found.count(stored(queue=4, offset=9)) == 0


def test_what_was_popped_together_is_one_entry_of_a_batch() -> None:
    receipts = [Receipt.parse(f"8 50 60 7 0 a {queue}", offset)
                for queue, offset in ((3, 8), (3, 17), (4, 9))]  # fmt: skip
    found = batch_of_acks("a", "G", "T", receipts)
    assert found["brokerName"] == "a"
    offsets = [(each.queue, each.offsets) for each in map(BatchAck.parse, found["acks"])]
    assert offsets == [(3, [8, 17]), (4, [9])]


@pytest.mark.parametrize("text", ["", "1 2 3", "x 2 3 4 0 a 0", "9 2 3 4 0 a 0", "0 2 3 4 0 a y"])
def test_a_receipt_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises((BodyError, ValueError)):
        Receipt.parse(text, 8)

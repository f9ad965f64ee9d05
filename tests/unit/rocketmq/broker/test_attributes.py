"""Attributes of topics and groups, and what alters them."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker import attributes
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError

FIFO = {"+message.type": "FIFO"}


def test_as_javas_tool_writes_them() -> None:
    assert attributes.parsed("") == {}
    assert attributes.parsed("+message.type=FIFO,-reserve.time,+queue.type=SimpleCQ") == {
        "+message.type": "FIFO", "-reserve.time": "", "+queue.type": "SimpleCQ",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
     ("-message.type=FIFO", "add/alter attribute format is wrong: -message.type"),
     ("message.type", "delete attribute format is wrong: message.type"),
     ("+a=1,+a=2", "key duplication: \\+a")],
)  # fmt: skip
def test_texts_that_are_none(text: str, words: str) -> None:
    with pytest.raises(BodyError, match=words):
        attributes.parsed(text)


def test_a_topic_gets_and_loses_them() -> None:
    made = attributes.of_topic(None, FIFO)
    assert made == {"message.type": "FIFO"}
    more = attributes.of_topic(made, {"+reserve.time": "-1", "+message.type": "DELAY"})
    assert more == {"message.type": "DELAY", "reserve.time": "-1"}
    assert made == {"message.type": "FIFO"}, "a copy"
    assert attributes.of_topic(more, {"-message.type": ""}) == {"reserve.time": "-1"}
    assert attributes.of_topic(more, {}) == more
    assert attributes.of_topic(more, more) == more, "what was read may be put back"


@pytest.mark.parametrize(
    ("current", "wanted", "words"),
    [
        (None, {"+color": "red"}, "unsupported key: color"),
        (None, {"+message.type": "ODD"}, "message.type is ODD: value is not in set: UNSPEC"),
        (None, {"+reserve.time": "-2"}, "not in range"),
        (None, {"+reserve.time": "x"}, "not in range"),
        (None, {"+reserve.time": str(1 << 63)}, "not in range"),
        (None, {"+cleanup.policy": "COMPACTION"}, "not in set: DELETE"),
        (None, {"+queue.type": "BatchCQ"}, "not in set: SimpleCQ"),
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({}, {"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute"),
        ({}, {"message.type": "FIFO"}, "wrong format key: message.type"),
        ({"a": "1"}, {"+a": "2", "-a": ""}, "alter duplication key. key: a"),
        ({}, {"+": "1"}, "kv string format wrong"),
        ({}, {"+a-b": "1"}, "kv string format wrong"),
    ],
)
def test_what_no_topic_can_have(
    current: dict[str, str] | None, wanted: dict[str, str], words: str
) -> None:
    change = attributes.altered if "a" in (current or {}) else attributes.of_topic
    with pytest.raises(BodyError, match=words):
        change(current, wanted)


def test_mixed_types_are_refused_as_by_java() -> None:
    with pytest.raises(RefusedError, match="MIXED message type") as refusal:
        attributes.of_topic({}, {"+message.type": "MIXED"})
    assert refusal.value.code == ResponseCode.INVALID_PARAMETER

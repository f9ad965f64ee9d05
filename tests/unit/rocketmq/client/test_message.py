"""A message that a program sends."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.errors import BadMessage
from penstock.rocketmq.client.message import Message


def test_properties_as_they_are_sent() -> None:
    message = Message("T", b"x", tags="a", keys=["k", "l"], properties={"who": "me"},
                      sharding_key="s", delay_level=3, wait_store=False)  # fmt: skip
    assert message.to_properties("ID") == {
        "UNIQ_KEY": "ID", "WAIT": "false", "TAGS": "a", "KEYS": "k l", "__SHARDINGKEY": "s",
        "DELAY": "3", "who": "me",
    }  # fmt: skip
    assert Message("T", b"x", delay=1.5).to_properties("ID")["TIMER_DELAY_MS"] == "1500"
    assert Message("T", b"x", deliver_at=2.0).to_properties("ID")["TIMER_DELIVER_MS"] == "2000"


@pytest.mark.parametrize(
    "more",
    [
        {"body": b""},
        {"body": b"x" * 11},
        {"delay": 1.0, "delay_level": 1},
        {"properties": {"": "x"}},
        {"properties": {"x": ""}},
        {"properties": {"x": "a\x01b"}},
        {"properties": {"UNIQ_KEY": "x"}},
    ],
)
def test_what_no_broker_would_take_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        Message(**{"topic": "T", "body": b"x", **more}).check(10)


def test_a_body_is_bytes() -> None:
    with pytest.raises(TypeError, match="str"):
        Message("T", "text").check(10)  # type: ignore[arg-type]

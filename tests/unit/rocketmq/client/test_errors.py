"""Errors name the thing and what can be done."""

from __future__ import annotations

from penstock.rocketmq.client.errors import (
    BrokerError,
    NotConnected,
    SendFailed,
    TopicNotExist,
    refusal,
)


def test_each_code_has_its_exception() -> None:
    error = refusal("b:1", 17, "topic[T] not exist", "topic T")
    assert type(error) is TopicNotExist
    assert str(error) == "b:1 (topic T): TOPIC_NOT_EXIST 17: topic[T] not exist"


def test_a_code_that_is_new_to_us_is_told_by_its_number() -> None:
    error = refusal("b:1", 4711, None)
    assert type(error) is BrokerError
    assert str(error) == "b:1: code 4711: without a reason"


def test_a_failed_send_tells_each_reason_once() -> None:
    reasons = [NotConnected("b:1", "refused"), NotConnected("b:1", "refused")]
    error = SendFailed("T", reasons)
    assert str(error) == "Send [2] times, still failed, Topic: T - b:1: refused"
    assert error.errors == tuple(reasons)

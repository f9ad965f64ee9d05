"""Errors name the thing and what can be done."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.errors import (
    BrokerError,
    ClientError,
    NoReply,
    NotConnected,
    SendFailed,
    Stopped,
    TimedOut,
    TopicNotExist,
    no_broker,
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
    told = "Send [2] times, still failed, Topic: T - b:1: refused"
    assert str(error) == f"{told}; {NotConnected.REMEDY}"
    assert (error.told, error.remedy) == (told, NotConnected.REMEDY)
    assert error.errors == tuple(reasons)


@pytest.mark.parametrize(
    ("error", "told", "helps"),
    [
        (NotConnected("b:1", "refused"), "b:1: refused", "see that it runs"),
        (TimedOut("b:1", "no answer"), "b:1: no answer", "request_timeout"),
        (no_broker("b"), "b: The broker[b] not exist", "mqadmin clusterList"),
        (refusal("b:1", 16, "denied"), "b:1: NO_PERMISSION 16: denied", "updateTopicPerm"),
        (NoReply("nobody", "wait"), "nobody", "wait"),
        (Stopped(), "the client is closed", "make another one"),
    ],
)
def test_the_reason_comes_first_and_then_what_helps(
    error: ClientError, told: str, helps: str
) -> None:
    assert str(error).startswith(f"{told}; ")
    assert helps in str(error)

"""Requests that a slave refuses, and those that it answers."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.slaves.refusals import refusal
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command


@pytest.mark.parametrize(
    ("code", "answered", "words"),
    [
        (RequestCode.SEND_MESSAGE_V2, ResponseCode.SERVICE_NOT_AVAILABLE, "put to the slave"),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SERVICE_NOT_AVAILABLE, "to the slave"),
        (RequestCode.DELETE_TOPIC_IN_BROKER, ResponseCode.SYSTEM_ERROR, "Can't modify topic"),
        (RequestCode.END_TRANSACTION, ResponseCode.SLAVE_NOT_AVAILABLE, ""),
        (RequestCode.CLEAN_UNUSED_TOPIC, ResponseCode.SUCCESS, ""),  # its master does
    ],
)
def test_what_changes_messages_or_tables_is_not_done(
    code: RequestCode, answered: ResponseCode, words: str
) -> None:
    answer = refusal(Command(code, 7))
    assert answer is not None
    assert (answer.code, answer.opaque, answer.ext) == (answered, 7, {})
    assert words in (answer.remark or "")


@pytest.mark.parametrize(
    "code",
    [RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET,
     RequestCode.HEART_BEAT, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG],
)  # fmt: skip
def test_reads_are_answered(code: RequestCode) -> None:
    assert refusal(Command(code)) is None

"""Requests to pop and to look: what is refused, and what the answers say."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.pop import popping as pop
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import decode_all
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import make_topic

FIELDS: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": -1, "maxMsgNums": 32,
          "invisibleTime": 60_000, "pollTime": 0, "bornTime": 1, "initMode": 0}  # fmt: skip


@pytest.fixture
def client(client: RawClient, rocket: RocketBroker, loop_thread: LoopThread) -> RawClient:
    """With a topic T of two queues and three messages."""
    make_topic(client, "T", 2)
    for queue, bodies in ((0, (b"a", b"b")), (1, (b"c",))):
        loop_thread.run(store(rocket.services, "T", queue, *bodies))
    return client


def asked(client: RawClient, code: int = Code.POP_MESSAGE, **changes: Any) -> Command:
    return client.ask(code, **{**FIELDS, **changes})


def test_an_answer(client: RawClient) -> None:
    answer = asked(client, maxMsgNums=2)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert [each.body for each in decode_all(answer.body)] == [b"a", b"b"]
    ext = answer.ext or {}
    assert abs(int(ext.pop("popTime")) - next(decode_all(answer.body)).store_ms) < 60_000
    assert ext == {"invisibleTime": "60000", "reviveQid": "0", "restNum": "1",
                   "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1"}  # fmt: skip
    rest = asked(client)
    assert (rest.ext or {})["msgOffsetInfo"] == "0 1 0"
    nothing = asked(client)
    assert (nothing.code, nothing.remark) == (
        ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE",
    )  # fmt: skip
    assert (nothing.ext or {})["msgOffsetInfo"] == ""


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST, "topic[missing] not exist"),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER, "queueId[2] is illegal"),
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER, "maxMsgNums is 33"),
        ({"maxMsgNums": 0}, ResponseCode.INVALID_PARAMETER, "maxMsgNums is 0"),
        ({"invisibleTime": 0}, ResponseCode.INVALID_PARAMETER, "invisibleTime is 0"),
        ({"exp": "a >", "expType": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse"),
        ({"consumerGroup": "a b"}, ResponseCode.SYSTEM_ERROR, "illegal characters"),
        ({"consumerGroup": "a|b"}, ResponseCode.SYSTEM_ERROR, "cannot pop"),
        ({"pollTime": ""}, ResponseCode.SYSTEM_ERROR, "pollTime is missing"),
    ],
)
def test_refusals(
    client: RawClient, changes: dict[str, Any], code: ResponseCode, remark: str
) -> None:
    answer = asked(client, **changes)
    assert answer.code == code
    assert remark in (answer.remark or "")


def test_a_look_shows_what_one_answer_holds(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop, "ANSWER_BYTES_MAX", 1)
    answer = asked(client, Code.PEEK_MESSAGE)
    assert [each.body for each in decode_all(answer.body)] == [b"a"]
    assert answer.text("restNum") == "2"
    asked(client)
    assert asked(client, Code.PEEK_MESSAGE).code == ResponseCode.PULL_NOT_FOUND


def test_how_many_wait(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(client, Code.POLLING_INFO).ext == {"pollingNum": "0"}
    asked(client)
    monkeypatch.setattr(pop, "WAITING_OF_GROUP_MAX", 0)
    assert asked(client, pollTime=1000).code == ResponseCode.POLLING_FULL

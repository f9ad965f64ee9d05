"""Requests to pop and to look: what is refused, and what the answers say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.pop import popping as pop
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import decode_all
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

FIELDS: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": -1, "maxMsgNums": 32,
          "invisibleTime": 60_000, "pollTime": 0, "bornTime": 1, "initMode": 0}  # fmt: skip


@pytest.fixture
def client(
    connect: Callable[[], RawClient], rocket: RocketBroker, loop_thread: LoopThread
) -> RawClient:
    """With a topic T of two queues and three messages."""
    client = connect()
    client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", defaultTopic="TBW102",
               readQueueNums=2, writeQueueNums=2, perm=6, topicFilterType="SINGLE_TAG",
               order="false")  # fmt: skip
    loop_thread.run(store(rocket.services, "T", 0, b"a", b"b"))
    loop_thread.run(store(rocket.services, "T", 1, b"c"))
    return client


def ask(client: RawClient, **changes: Any) -> Command:
    return client.ask(RequestCode.POP_MESSAGE, **{**FIELDS, **changes})


def test_an_answer(client: RawClient) -> None:
    answer = ask(client, maxMsgNums=2)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert [each.body for each in decode_all(answer.body)] == [b"a", b"b"]
    ext = answer.ext or {}
    assert abs(int(ext.pop("popTime")) - next(decode_all(answer.body)).store_ms) < 60_000
    assert ext == {"invisibleTime": "60000", "reviveQid": "0", "restNum": "1",
                   "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1"}  # fmt: skip
    rest = ask(client)
    assert (rest.ext or {})["msgOffsetInfo"] == "0 1 0"
    nothing = ask(client)
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
    answer = ask(client, **changes)
    assert answer.code == code
    assert remark in (answer.remark or "")


def test_what_may_not_be_read(client: RawClient, rocket: RocketBroker) -> None:
    ask(client)  # makes the group
    config = rocket.services.topics.get("T")
    assert config is not None
    config.perm = 2
    assert ask(client).code == ResponseCode.NO_PERMISSION
    config.perm = 6
    rocket.services.groups.configs["G"].consume_enable = False
    assert ask(client).code == ResponseCode.NO_PERMISSION
    rocket.services.groups.configs["G"].consume_enable = True
    rocket.settings.broker_permission = 2
    assert ask(client).code == ResponseCode.NO_PERMISSION


def test_too_many_wait(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(client)
    monkeypatch.setattr(pop, "WAITING_OF_GROUP_MAX", 0)
    assert ask(client, pollTime=1000).code == ResponseCode.POLLING_FULL


def test_looking(client: RawClient) -> None:
    answer = client.ask(RequestCode.PEEK_MESSAGE, **{**FIELDS, "maxMsgNums": 2})
    assert [each.body for each in decode_all(answer.body)] == [b"a", b"b"]
    assert (answer.ext or {})["restNum"] == "1"
    ask(client)
    assert client.ask(RequestCode.PEEK_MESSAGE, **FIELDS).code == ResponseCode.PULL_NOT_FOUND


def test_how_many_wait(client: RawClient) -> None:
    assert client.ask(RequestCode.POLLING_INFO, **FIELDS).ext == {"pollingNum": "0"}


def test_a_look_shows_as_much_as_one_answer_holds(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop, "ANSWER_BYTES_MAX", 1)
    answer = client.ask(RequestCode.PEEK_MESSAGE, **FIELDS)
    assert [each.body for each in decode_all(answer.body)] == [b"a"]
    assert (answer.ext or {})["restNum"] == "2"

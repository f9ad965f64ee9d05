"""Every request gets an answer that says what it is about, whatever fails, over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker.publish.batching import Outcome
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError, StorageError
from penstock.rocketmq.broker import processor
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import COMMANDS, ResponseCode
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import decode_all
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient

from .asking import pull, pull_fields, send

OF_THE_BROKER = [kind for kind in COMMANDS if kind.server == "broker"]
NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
OBSOLETE = Code.QUERY_BROKER_OFFSET
LENIENT = Code.UNREGISTER_CLIENT
"""It is done for the connection that it comes by, whatever id it names."""


@pytest.mark.parametrize("body", [b"", b"{", b"[1]"])
def test_no_request_is_met_with_silence(client: RawClient, body: bytes) -> None:
    """Whatever it lacks: it gets a number, and words unless it was done."""
    for kind in OF_THE_BROKER:
        answer = client.ask(kind.code, body)
        assert (answer.code == NOT_SUPPORTED) == (kind.code == OBSOLETE), kind
        if kind.required and kind.code != LENIENT:
            assert answer.code != ResponseCode.SUCCESS, kind
            assert answer.remark, kind
            assert "see its log" not in answer.remark, kind


def test_fields_that_make_no_sense_are_told(client: RawClient) -> None:
    for kind in OF_THE_BROKER:
        fields: dict[str, Any] = dict.fromkeys((*kind.required, *kind.optional), "\u4e0d")
        answer = client.ask(kind.code, b"\xff\xfe", **fields)
        assert "see its log" not in (answer.remark or ""), kind
    assert client.ask(Code.GET_ALL_DELAY_OFFSET).code == ResponseCode.SUCCESS


def test_one_way_requests_are_never_answered(client: RawClient) -> None:
    for kind in OF_THE_BROKER:
        client.tell(kind.code)
    assert client.ask(Code.GET_ALL_DELAY_OFFSET).code == ResponseCode.SUCCESS
    assert [command.code for command in client.requests if command.is_response] == []


def test_a_full_disk_is_told_and_a_topic_that_takes_no_more(
    rocket: RocketBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(topic: Topic, records: object, delay_ns: int, done: Outcome, queue: int) -> None:
        done(DiskFullError("no space left on device"))

    assert send(client, "T").code == ResponseCode.SUCCESS
    with monkeypatch.context() as patch:
        patch.setattr(rocket.services.node.commits, "publish", publish)
        answer = send(client, "T")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "no space left on device" in (answer.remark or "")
    assert rocket.services.stats.totals.put_failures == 1
    assert send(client, "T").code == ResponseCode.SUCCESS
    rocket.services.node.broker.topics["T"].exiting = True  # as of a master that steps back
    answer = send(client, "T")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, "as of a store that shuts down"
    assert (answer.remark or "").endswith("the message is not stored: exiting")


def test_lite_pulls_are_pulls(client: RawClient) -> None:
    send(client, "T", b"body")
    fields = pull_fields("T", 0, 0, sysFlag=0x14, ReqT="0")
    lite, plain = (client.ask(c, **fields) for c in (Code.LITE_PULL_MESSAGE, Code.PULL_MESSAGE))
    assert (lite.code, lite.remark) == (ResponseCode.SUCCESS, "FOUND")
    (message,) = decode_all(lite.body)
    assert message.body == b"body"
    assert (lite.ext, lite.body) == (plain.ext, plain.body)


def test_subscriptions_that_are_missing_old_or_wrong(client: RawClient) -> None:
    """Of a pull that relies on what the group's heartbeats say of the topic."""

    def code(topic: str, version: int) -> int:
        return pull(client, topic, 0, 0, sysFlag=0, subVersion=version)[0].code

    send(client, "T")
    assert code("T", 1) == ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.ask(Code.HEART_BEAT, heartbeat("c", "CG", topic="T", version=5))
    assert code("T", 5) == ResponseCode.SUCCESS
    assert code("T", 6) == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert code("TBW102", 5) == ResponseCode.SUBSCRIPTION_NOT_EXIST
    bad = heartbeat("c", "CG", topic="T", text="a >> 1", kind="SQL92", version=7)
    client.ask(Code.HEART_BEAT, bad)
    assert code("T", 7) == ResponseCode.FILTER_DATA_NOT_EXIST


# --- codes without answerers, failures, and too many at once --------------------------------------


FREE = 31_999
"""A code that nobody has."""


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RefusedError(ResponseCode.NO_PERMISSION, "not you"), 16, "not you"),
        (BodyError("the field x is missing"), 1, "the field x is missing"),
        (StorageError("the disk is gone"), 1, "the disk is gone"),
        (ZeroDivisionError("secret"), 1, "the broker failed; see its log"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_failures_are_answers(
    client: RawClient, rocket: RocketBroker, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, error: Exception, code: int, remark: str, later: bool,
) -> None:  # fmt: skip
    """And a bug reaches the log alone."""

    def fail(*_: object) -> None:
        raise error

    async def fail_later(*_: object) -> None:
        raise error

    if later:
        monkeypatch.setitem(rocket.services.answers.later, FREE, fail_later)
    else:
        monkeypatch.setitem(rocket.services.answers.at_once, FREE, fail)
    answer = client.ask(FREE)
    assert (answer.code, answer.remark) == (code, remark)
    assert ("ZeroDivisionError" in caplog.text) is isinstance(error, ZeroDivisionError)
    assert client.ask(Code.GET_BROKER_RUNTIME_INFO).code == 0


def test_too_many_answers_under_way_are_refused(
    client: RawClient, rocket: RocketBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def never(*_: object) -> Command | None:
        await asked.wait()
        return None

    monkeypatch.setattr(processor, "UNDER_WAY_MAX", 3)
    monkeypatch.setitem(rocket.services.answers.later, FREE, never)
    for _ in range(3):
        client.begin(FREE)
    answer = client.ask(FREE)
    assert answer.code == 2
    assert "[OVERLOAD]" in (answer.remark or "")

"""Every request gets an answer that says what it is about, over a real connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.publish.batching import Outcome
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import COMMANDS, RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages.message import decode_all
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient

OF_THE_BROKER = [kind for kind in COMMANDS if kind.server == "broker"]
NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
OBSOLETE = RequestCode.QUERY_BROKER_OFFSET
LENIENT = RequestCode.UNREGISTER_CLIENT
"""It is done for the connection that it comes by, whatever id it names."""


@pytest.fixture
def client(connect: Callable[[], RawClient]) -> RawClient:
    return connect()


def send(client: RawClient, topic: str, body: bytes = b"x", properties: str = "") -> Command:
    return client.ask(
        RequestCode.SEND_MESSAGE_V2, body, a="PG", b=topic, c="TBW102", d=4, e=0, f=0, g=1, h=0,
        i=properties, j=0, k="false", m="false",
    )  # fmt: skip


def pull(client: RawClient, group: str, topic: str, version: int) -> Command:
    """A pull that relies on what the group's heartbeats say of the topic."""
    return client.ask(
        RequestCode.PULL_MESSAGE, consumerGroup=group, topic=topic, queueId=0, queueOffset=0,
        maxMsgNums=1, sysFlag=0, commitOffset=0, suspendTimeoutMillis=0, subVersion=version,
    )  # fmt: skip


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
    assert client.ask(RequestCode.GET_ALL_DELAY_OFFSET).code == ResponseCode.SUCCESS


def test_one_way_requests_are_never_answered(client: RawClient) -> None:
    for kind in OF_THE_BROKER:
        client.tell(kind.code)
    assert client.ask(RequestCode.GET_ALL_DELAY_OFFSET).code == ResponseCode.SUCCESS
    assert [command.code for command in client.requests if command.is_response] == []


def test_a_full_disk_is_told(
    rocket: RocketBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(topic: Topic, records: object, delay_ns: int, done: Outcome, queue: int) -> None:
        done(DiskFullError("no space left on device"))

    assert send(client, "T").code == ResponseCode.SUCCESS
    monkeypatch.setattr(rocket.services.node.commits, "publish", publish)
    answer = send(client, "T")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "no space left on device" in (answer.remark or "")
    assert rocket.services.stats.totals.put_failures == 1
    monkeypatch.undo()
    assert send(client, "T").code == ResponseCode.SUCCESS


def test_a_topic_that_takes_no_more_is_told_as_a_store_that_shuts_down(
    rocket: RocketBroker, client: RawClient
) -> None:
    assert send(client, "T").code == ResponseCode.SUCCESS
    rocket.services.node.broker.topics["T"].exiting = True  # as of a master that steps back
    answer = send(client, "T")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert (answer.remark or "").endswith("the message is not stored: exiting")


def test_lite_pulls_are_pulls(client: RawClient) -> None:
    send(client, "T", b"body")
    fields: dict[str, Any] = {
        "consumerGroup": "G", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1,
        "sysFlag": 0x14, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0,
        "subscription": "*", "ReqT": "0",
    }  # fmt: skip
    lite = client.ask(RequestCode.LITE_PULL_MESSAGE, **fields)
    assert (lite.code, lite.remark) == (ResponseCode.SUCCESS, "FOUND")
    (message,) = decode_all(lite.body)
    assert message.body == b"body"
    plain = client.ask(RequestCode.PULL_MESSAGE, **fields)
    assert (lite.ext, lite.body) == (plain.ext, plain.body)


def test_subscriptions_that_are_missing_old_or_wrong(client: RawClient) -> None:
    send(client, "T")
    assert pull(client, "G", "T", 1).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.ask(RequestCode.HEART_BEAT, heartbeat("c", "G", topic="T", version=5))
    assert pull(client, "G", "T", 5).code == ResponseCode.SUCCESS
    assert pull(client, "G", "T", 6).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert pull(client, "G", "TBW102", 5).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    bad = heartbeat("c", "G", topic="T", text="a >> 1", kind="SQL92", version=7)
    client.ask(RequestCode.HEART_BEAT, bad)
    assert pull(client, "G", "T", 7).code == ResponseCode.FILTER_DATA_NOT_EXIST

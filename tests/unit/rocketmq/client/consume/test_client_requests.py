"""Requests of administrators to a consumer."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.consume.client_requests import ClientRequests
from penstock.rocketmq.client.consume.consuming import Consumption, RetryLater
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import MemoryHub
from tools.harness.rocketmq.records import stored

QUEUE = MessageQueue("a", 0, "T")


def made() -> tuple[MemoryHub, Brokers, Consumption, ClientRequests]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.offsets[QUEUE] = 0
    brokers.put(QUEUE, b"1", b"2", b"3")
    core = Consumption("G", hub, ConsumerKind())
    requests = ClientRequests(core)
    core.subscribe("T", Filter())
    hub.does(Job(core.begin()))
    hub.passes(1)
    return hub, brokers, core, requests


def ask(hub: MemoryHub, code: int, body: bytes = b"", **fields: str) -> Any:
    before = len(hub.log)
    hub.receive("a:10911", Command(code, 1, fields, body))
    (answer,) = [a for _, a in hub.log[before:] if a.is_response]
    assert answer.code == 0
    return fastjson.loads(answer.body)


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"offsetTable":1}', b'{"offsetTable":[{"topic":"T"}]}',
     b'{"offsetTable":{"x":2}}', b'{"offsetTable":[1]}',
     b'{"offsetTable":[{"brokerName":"a","queueId":0,"topic":"T","offset":"x"}]}'],
)  # fmt: skip
def test_a_reset_that_makes_no_sense_changes_nothing(body: bytes) -> None:
    hub, _, core, _ = made()
    hub.receive("a:10911", Command(220, 1, {}, body, flag=ONE_WAY))
    assert "a:10911" in hub.connections
    assert core.held[QUEUE].next_offset == 3


def test_offsets_are_reset_and_committed() -> None:
    hub, brokers, core, _ = made()
    body = fastjson.dumps({"offsetTable": {QUEUE: 2}})
    hub.receive("a:10911", Command(220, 1, {"topic": "T", "group": "G"}, body, flag=ONE_WAY))
    hub.passes(0.1)
    unit = core.take(9)
    assert unit is not None
    assert [each.body for each in unit.messages] == [b"3"]
    assert brokers.offsets[QUEUE] == 2
    listed = [{"brokerName": "a", "queueId": 0, "topic": "T", "offset": 1}]
    body = fastjson.dumps({"offsetTable": listed})  # for clients in C++
    hub.receive("a:10911", Command(220, 2, {}, body, flag=ONE_WAY))
    hub.passes(0.1)
    assert core.held[QUEUE].commit_offset == 1


def test_it_says_where_it_is() -> None:
    hub, _, _, _ = made()
    found = ask(hub, 221, topic="T", group="G")
    assert {dict(key)["queueId"]: offset for key, offset in found["messageQueueTable"].items()} == {
        0: 0, 1: 0
    }  # fmt: skip


def test_it_says_what_it_does() -> None:
    hub, _, _, _ = made()
    found = ask(hub, 307, consumerGroup="G", clientId=hub.client_id)
    assert found["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    (held,) = [v for k, v in found["mqTable"].items() if dict(k)["queueId"] == 0]
    assert (held["cachedMsgCount"], held["cachedMsgMinOffset"], held["cachedMsgMaxOffset"]) == (
        3, 0, 2,
    )  # fmt: skip
    assert found["subscriptionSet"][0]["topic"] == "T"


def test_it_says_how_fast_it_is() -> None:
    hub, _, core, _ = made()
    unit = core.take(2)
    assert unit is not None
    hub.passes(3)
    core.finished(unit)
    unit = core.take(1)
    assert unit is not None
    core.failed(unit, RetryLater())
    found = ask(hub, 307, consumerGroup="G", clientId=hub.client_id)["statusTable"]
    assert found["T"] == {
        "consumeFailedMsgs": 1, "consumeFailedTPS": 0.25, "consumeOKTPS": 0.5, "consumeRT": 1500.0,
        "pullRT": 0.0, "pullTPS": 0.75,
    }  # fmt: skip


def test_it_handles_one_message_at_once() -> None:
    hub, _, _, requests = made()
    record = encode(stored(body=b"now"))
    assert ask(hub, 309, record, brokerName="a")["consumeResult"] == "CR_THROW_EXCEPTION"
    seen: list[bytes] = []

    def handle(messages: list[Received]) -> None:
        seen.extend(message.body for message in messages)
        if messages[0].broker == "y":
            raise RetryLater
        if messages[0].broker == "z":
            raise ValueError("no")

    requests.handler = handle
    assert ask(hub, 309, record, brokerName="a")["consumeResult"] == "CR_SUCCESS"
    later = ask(hub, 309, record, brokerName="y")
    assert (later["consumeResult"], later.get("remark")) == ("CR_LATER", None)
    found = ask(hub, 309, record, brokerName="z")
    assert (found["consumeResult"], found["remark"]) == ("CR_THROW_EXCEPTION", "ValueError('no')")
    assert seen == [b"now"] * 3

"""Acknowledging popped messages, and hiding them for another time."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import FakePeer, answered, request
from tests.unit.rocketmq.broker.popping import Request, popper, with_pops

PEER = FakePeer().connection


@pytest.fixture
async def topic(services: Services) -> Services:
    """Three messages of queue 1 are hidden for a second."""
    with_pops(services, queues=2)
    await store(services, "T", 1, b"a", b"b", b"c")
    popper(services).wait(Request(), 1000)
    return services


def fields(services: Services, offset: int = 0, **changes: Any) -> dict[str, Any]:
    receipt = f"0 {services.now_ms} 1000 0 0 broker-a 1 {offset}"
    return {"consumerGroup": "G", "topic": "T", "queueId": 1, "offset": offset,
            "extraInfo": receipt, **changes}  # fmt: skip


def in_flight(services: Services) -> int:
    return popper(services).channel.state.in_flight_count


async def test_one(topic: Services) -> None:
    found = answered(topic, PEER, request(RequestCode.ACK_MESSAGE, **fields(topic, 1)))
    assert found.code == ResponseCode.SUCCESS
    assert in_flight(topic) == 2
    again = answered(topic, PEER, request(RequestCode.ACK_MESSAGE, **fields(topic, 1)))
    assert (again.code, in_flight(topic)) == (ResponseCode.SUCCESS, 2)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 2}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 4}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
    ],
)
async def test_refusals(topic: Services, changes: dict[str, Any], code: ResponseCode) -> None:
    given = fields(topic, invisibleTime=5, **changes) if "offset" not in changes else {
        **fields(topic, invisibleTime=5), **changes,
    }  # fmt: skip
    for asked in (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
        with pytest.raises(RefusedError) as caught:
            answered(topic, PEER, request(asked, **given))
        assert caught.value.code == code


async def test_a_receipt_that_is_too_late(topic: Services, clock: FakeClock) -> None:
    given = request(RequestCode.ACK_MESSAGE, **fields(topic))
    hide = request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **fields(topic, invisibleTime=9000))
    clock.advance(1000 * MILLISECOND)
    assert answered(topic, PEER, given).code == ResponseCode.SUCCESS
    assert answered(topic, PEER, hide).code == ResponseCode.SUCCESS
    assert in_flight(topic) == 3  # it may be somebody else's by now


async def test_a_receipt_that_is_none(topic: Services) -> None:
    with pytest.raises(BodyError, match="extra info"):
        answered(topic, PEER, request(RequestCode.ACK_MESSAGE, **fields(topic, extraInfo="x")))


def batch(services: Services, **changes: Any) -> Command:
    bits = base64.b64encode(bytes((0b1101,))).decode()
    entry = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 1, "rq": 0, "pt": services.now_ms,
             "it": 1000, "b": bits, **changes}  # fmt: skip
    body = json.dumps({"brokerName": "broker-a", "acks": [entry]}).encode()
    return request(RequestCode.BATCH_ACK_MESSAGE, body)


async def test_several(topic: Services) -> None:
    assert answered(topic, PEER, batch(topic)).code == ResponseCode.SUCCESS
    assert in_flight(topic) == 1  # the fourth bit is of no message
    assert answered(topic, PEER, batch(topic, t="missing")).code == ResponseCode.SUCCESS
    assert answered(topic, PEER, batch(topic, c="nobody")).code == ResponseCode.SUCCESS


@pytest.fixture
def empty(services: Services) -> Services:
    with_pops(services)
    return services


@pytest.mark.parametrize("body", [b"", b"{}", b'{"acks":[]}'])
async def test_nothing(empty: Services, body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        answered(empty, PEER, request(RequestCode.BATCH_ACK_MESSAGE, body))
    assert caught.value.code == ResponseCode.NO_MESSAGE


@pytest.mark.parametrize("body", [b'{"acks":5}', b'{"acks":[5]}', b"{"])
async def test_bodies_that_are_none(empty: Services, body: bytes) -> None:
    with pytest.raises(BodyError):
        answered(empty, PEER, request(RequestCode.BATCH_ACK_MESSAGE, body))


async def test_another_time(topic: Services, clock: FakeClock) -> None:
    given = fields(topic, 2, invisibleTime=9000)
    answer = answered(topic, PEER, request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **given))
    assert answer.ext == {"popTime": str(topic.now_ms), "invisibleTime": "9000", "reviveQid": "0"}
    clock.advance(2000 * MILLISECOND)
    channel = popper(topic).channel
    channel.tick(clock.monotonic_ns())
    assert (channel.state.in_flight_count, channel.state.depth) == (1, 2)
    later = fields(topic, 2, extraInfo=f"0 {topic.now_ms - 2000} 9000 0 0 broker-a 1 2")
    answered(topic, PEER, request(RequestCode.ACK_MESSAGE, **later))
    assert in_flight(topic) == 0


async def test_messages_of_queues_that_the_topic_has_no_more(services: Services) -> None:
    with_pops(services, queues=8)
    await store(services, "T", 6, b"left")
    with_pops(services, queues=4)
    request_ = Request()
    popper(services).wait(request_, 1000)
    await asyncio.sleep(0)
    assert [(each.queue, each.queue_offset) for each in request_.popped] == [(6, 0)]
    given = fields(services, queueId=6, invisibleTime=9000)
    answer = answered(services, PEER, request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, **given))
    assert answer.code == ResponseCode.SUCCESS
    assert answered(services, PEER, request(RequestCode.ACK_MESSAGE, **given)).code == 0
    assert in_flight(services) == 0

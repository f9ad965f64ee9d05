"""Who is connected, as the tools show it."""

from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.clients import Heartbeat, Member
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Language
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, heartbeat, request

MEMBER = {"clientAddr": "127.0.0.1:5000", "clientId": "c1", "language": "GO", "version": 317}


@pytest.fixture
def online(services: Services) -> FakePeer:
    """A client that consumes in the group CG and produces in PG."""
    peer = FakePeer()
    body = heartbeat("c1", "CG", topic="T", text="A||B", version=5, producers=("PG",))
    member = Member(
        "c1", peer.connection, peer.address, Language.GO, 317, services.clock.monotonic_ns()
    )
    services.clients.beat(Heartbeat.parse(body), member)
    return peer


def test_consumers_with_what_they_subscribe(services: Services, online: FakePeer) -> None:
    asked = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="CG")
    answer = answered(services, online.connection, asked)
    assert fastjson.loads(answer.body) == {
        "connectionSet": [MEMBER],
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionTable": {
            "T": {
                "classFilterMode": False, "codeSet": [65, 66], "expressionType": "TAG",
                "subString": "A||B", "subVersion": 5, "tagsSet": ["A", "B"], "topic": "T",
            }
        },
    }  # fmt: skip


def test_a_group_that_is_not_online(services: Services, online: FakePeer) -> None:
    asked = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="PG")
    with pytest.raises(RefusedError, match=r"the consumer group\[PG\] not online") as refused:
        hand_over(services, online.connection, asked)
    assert refused.value.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_producers(services: Services, online: FakePeer) -> None:
    asked = request(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="PG")
    answer = answered(services, online.connection, asked)
    assert fastjson.loads(answer.body) == {"connectionSet": [MEMBER]}


def test_a_producer_group_that_is_not_there(services: Services, online: FakePeer) -> None:
    asked = request(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="CG")
    with pytest.raises(RefusedError, match=r"the producer group\[CG\] not exist") as refused:
        hand_over(services, online.connection, asked)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_all_producers_and_when_they_were_heard(
    services: Services, online: FakePeer, clock: FakeClock
) -> None:
    heard_ms = services.now_ms
    clock.advance(7 * SECOND)
    asked = request(RequestCode.GET_ALL_PRODUCER_INFO)
    answer = answered(services, online.connection, asked)
    assert fastjson.loads(answer.body) == {
        "data": {
            "PG": [{
                "clientId": "c1", "language": "GO", "lastUpdateTimestamp": heard_ms,
                "remoteIP": "/127.0.0.1:5000", "version": 317,
            }]
        }
    }  # fmt: skip

"""Locks on queues, as clients ask for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.rocketmq.broker.clients import orderly
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state import queue_locks
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, request


def body(client: str, *queues: int, group: str = "G") -> bytes:
    wanted = [{"brokerName": "b", "queueId": number, "topic": "T"} for number in queues]
    return json.dumps({"clientId": client, "consumerGroup": group, "mqSet": wanted}).encode()


def lock(services: Services, client: str, *queues: int) -> list[int]:
    answer = answered(services, FakePeer().connection, request(41, body(client, *queues)))
    assert answer.code == 0
    held = fastjson.loads(answer.body)["lockOKMQSet"]
    assert all(set(queue) == {"brokerName", "queueId", "topic"} for queue in held)
    return [queue["queueId"] for queue in held]


def test_locking_and_giving_back(services: Services) -> None:
    assert lock(services, "c1", 0, 1) == [0, 1]
    assert lock(services, "c2", 0, 1, 2) == [2]
    answer = answered(services, FakePeer().connection, request(42, body("c1", 1, 2)))
    assert (answer.code, answer.body) == (0, b"")
    assert lock(services, "c2", 0, 1, 2) == [1, 2]


def test_locks_expire_when_nobody_renews_them(services: Services, clock: FakeClock) -> None:
    assert lock(services, "c1", 0, 1) == [0, 1]
    clock.advance(queue_locks.EXPIRY_NS)
    assert lock(services, "c1", 0) == [0]
    clock.advance(1)
    assert lock(services, "c2", 0, 1) == [1]
    clock.advance(queue_locks.EXPIRY_NS)
    services.orderly_locks.forget_expired()
    assert not services.locks.holds("G", "c1", MessageQueue("b", 0, "T"), clock.monotonic_ns())
    assert lock(services, "c2", 0) == [0]


@pytest.mark.parametrize(
    "value",
    [[], {"clientId": "c"}, {"clientId": "", "consumerGroup": "G"},
     {"clientId": "c", "consumerGroup": "G", "mqSet": 1},
     {"clientId": "c", "consumerGroup": "G", "mqSet": [{"brokerName": "b", "topic": "T"}]},
     {"clientId": "c", "consumerGroup": "G" * 256},
     {"clientId": "c" * 1025, "consumerGroup": "G"},
     {"clientId": "c", "consumerGroup": "G",
      "mqSet": [{"brokerName": "b", "topic": "T" * 256, "queueId": 0}]},
     {"clientId": "c", "consumerGroup": "G", "mqSet": [1] * (orderly.QUEUES_MAX + 1)}],
)  # fmt: skip
def test_what_is_no_request(services: Services, value: Any) -> None:
    with pytest.raises(BodyError):
        hand_over(services, FakePeer().connection, request(41, json.dumps(value).encode()))

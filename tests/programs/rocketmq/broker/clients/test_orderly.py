"""The cases of `rocketmq/broker/clients/test_orderly.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.rocketmq.broker.clients.test_orderly import body
from tools.harness.rocketmq.raw_client import RawClient


def test_through_real_connections(connect: Callable[[], RawClient]) -> None:
    one, two = connect(), connect()
    held = b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    assert one.ask(41, body("c1", 0)).body == held
    assert two.ask(41, body("c2", 0)).body == b'{"lockOKMQSet":[]}'
    assert two.ask(42, body("c2", 0)).code == 0
    assert one.ask(42, body("c1", 0)).code == 0
    assert two.ask(41, body("c2", 0)).body == held
    assert two.ask(41, b"x").code == 1

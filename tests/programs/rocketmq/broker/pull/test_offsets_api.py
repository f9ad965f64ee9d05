"""The cases of `rocketmq/broker/pull/test_offsets_api.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.harness.rocketmq.raw_client import RawClient


def test_one_way_and_not(connect: Callable[[], RawClient]) -> None:
    client = connect()
    fields: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": 0}
    client.tell(15, commitOffset=3, **fields)
    assert client.ask(14, **fields).ext == {"offset": "3"}
    assert client.ask(15, commitOffset=4, **fields).code == 0
    assert client.ask(14, **fields).ext == {"offset": "4"}
    assert client.ask(14, consumerGroup="G").code == 1
    assert client.requests == []

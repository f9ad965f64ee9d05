"""The cases of `rocketmq/broker/delays/test_timers.py` that need a port or a process."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.rocketmq.broker.daemon import RocketBroker
from tests.programs.rocketmq.broker.pull.test_pulling import FOR_LONG_MS, pull, send
from tools.harness.rocketmq.raw_client import RawClient

RECALL = 370


def test_a_time_of_its_own_on_the_wire(
    rocket: RocketBroker, connect: Callable[[], RawClient]
) -> None:
    client = connect()
    send(client, "Timed", b"now")
    start = time.monotonic()
    assert send(client, "Timed", b"x", i="TIMER_DELAY_MS\x01300\x02").code == 0
    _, messages = pull(client, "Timed", 0, 1, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    assert [m.body for m in messages] == [b"x"]
    assert time.monotonic() - start >= 0.299  # times of messages are whole milliseconds
    refused = send(client, "Timed", b"x", i="TIMER_DELAY_SEC\x01999999\x02")
    assert (refused.code, "max delay" in (refused.remark or "")) == (13, True)
    recall = client.ask(RECALL, producerGroup="PG", topic="Timed", recallHandle="x")
    assert (recall.code, recall.remark) == (16, "recall failed, operation is forbidden")

"""The cases of `rocketmq/broker/delays/test_schedule.py` that need a port or a process."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.rocketmq.broker.daemon import RocketBroker
from tests.programs.rocketmq.broker.pull.test_pulling import FOR_LONG_MS, pull, send
from tools.harness.rocketmq.raw_client import RawClient


def test_level_one_takes_a_second(rocket: RocketBroker, connect: Callable[[], RawClient]) -> None:
    client = connect()
    assert send(client, "Now", b"x").code == 0
    start = time.monotonic()
    answer = send(client, "Later", b"x", i="DELAY\x011\x02TAGS\x01t")
    assert answer.ext is not None
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("0", "0")
    answer, messages = pull(client, "Later", 0, 0, sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS)
    took = time.monotonic() - start
    assert [m.body for m in messages] == [b"x"]
    assert took >= 0.999  # times of messages are whole milliseconds
    assert "DELAY\x011" in messages[0].properties

"""The producer against our nsqd, the program itself: refusals and restarts."""

from __future__ import annotations

import asyncio
import json
from urllib.request import urlopen

import pytest

from penstock.nsq.client import NotConnected, Producer
from penstock.nsq.client.errors import BadMessage
from penstock.testing import Daemon, in_thread, run_nsqd


def stored(nsqd: Daemon, topic: str) -> int:
    with urlopen(f"http://{nsqd.http}/stats?format=json&topic={topic}") as answer:
        (found,) = json.load(answer)["topics"]
    return int(found["depth"])


async def test_only_the_bad_message_fails() -> None:
    bodies = [b"%d" % n for n in range(50)]
    bodies[20] = b"x" * 200
    async with in_thread(run_nsqd("--max-msg-size=100")) as nsqd:
        async with Producer(nsqd.tcp) as producer:
            results = await asyncio.gather(
                *(producer.publish("t", body) for body in bodies), return_exceptions=True
            )
        assert await asyncio.to_thread(stored, nsqd, "t") == 49
    failed = {index: result for index, result in enumerate(results) if result is not None}
    assert list(failed) == [20]
    assert isinstance(failed[20], BadMessage)


async def test_nothing_is_lost_over_a_restart() -> None:
    acknowledged = 0

    async def publish(producer: Producer, started: asyncio.Event) -> None:
        nonlocal acknowledged
        for _ in range(100):
            while True:
                try:
                    await producer.publish("t", b"x")
                except NotConnected:
                    await asyncio.sleep(0.02)
                else:
                    break
            acknowledged += 1
            started.set()

    async with in_thread(run_nsqd()) as nsqd:
        async with Producer(nsqd.tcp, max_pending=200) as producer, asyncio.TaskGroup() as group:
            started = asyncio.Event()
            for _ in range(50):
                group.create_task(publish(producer, started))
            await started.wait()
            await asyncio.to_thread(nsqd.restart)
        assert acknowledged == 5000
        assert await asyncio.to_thread(stored, nsqd, "t") >= 5000


async def test_the_http_port_is_recognised() -> None:
    async with in_thread(run_nsqd()) as nsqd, Producer(nsqd.http) as producer:
        with pytest.raises(Exception, match="is this the HTTP port of nsqd"):
            await producer.ping()

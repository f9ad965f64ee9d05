"""Both consumers, command by command, against the scripts of go-nsq's tests (reference 8.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.nsq.client import aio, blocking
from penstock.nsq.client.config import Config
from penstock.nsq.client.message import Message
from tests.unit.nsq.client.scripted_nsqd import ScriptedNsqd, scripted_nsqd

Play = Callable[..., None]
Changes = Sequence[tuple[float, int]]
"""After so many seconds another ``max_in_flight``."""
QUICK = Config(max_in_flight=5, backoff_multiplier=0.01)


class BadMessage(Exception):
    """What the handler raises."""


def handle(message: Message) -> None:
    if message.body == b"requeue":
        message.requeue()
    elif message.body == b"again":
        message.requeue(backoff=False)
    elif message.body == b"bad":
        raise BadMessage(message.body)


def play_aio(config: Config, node: ScriptedNsqd, changes: Changes = ()) -> None:
    async def play() -> None:
        addresses = [node.address]
        async with aio.Consumer("t", "ch", nsqd_tcp_addresses=addresses, config=config) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            for seconds, count in changes:
                await asyncio.sleep(seconds)
                consumer.max_in_flight = count
            await asyncio.to_thread(node.thread.join, 5)
            await consumer.close(0)
            await running

    asyncio.run(play())


def play_blocking(config: Config, node: ScriptedNsqd, changes: Changes = ()) -> None:
    left = list(changes)
    addresses = [node.address]
    with blocking.Consumer("t", "ch", nsqd_tcp_addresses=addresses, config=config) as consumer:
        while node.thread.is_alive():
            message = consumer.get(left[0][0] if left else 0.02)
            if message is not None:
                consumer._handle(handle, message)  # what ``run`` does with each
            elif left:
                consumer.max_in_flight = left.pop(0)[1]


@pytest.fixture(params=[play_aio, play_blocking], ids=["aio", "blocking"])
def play(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_consumer_backoff(play: Play) -> None:
    messages = [b"good"] * 3 + [b"bad"] * 2 + [b"good"] * 2
    with scripted_nsqd(messages) as node:
        play(QUICK, node)
    assert node.lines == [
        "IDENTIFY", "SUB", "RDY 5", "FIN", "FIN", "FIN",
        "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "FIN", "RDY 1", "RDY 5",
        "FIN",
    ]  # fmt: skip


def test_requeue_no_backoff(play: Play) -> None:
    config = Config(max_in_flight=1, backoff_multiplier=0.01)
    with scripted_nsqd([b"requeue", b"again", b"good"]) as node:
        play(config, node)
    assert node.lines == [
        "IDENTIFY", "SUB", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "FIN",
    ]  # fmt: skip


def test_backoff_disconnect(play: Play) -> None:
    config = Config(
        max_in_flight=5,
        backoff_multiplier=0.01,
        lookupd_poll_interval=0.01,
        rdy_redistribute_interval=0.01,
    )

    with scripted_nsqd([b"good", b"requeue", b"requeue", b"good"], [b"good", b"good"]) as node:
        play(config, node)
    first, second = node.sessions
    assert first == [
        "IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0",
        "RDY 1", "RDY 0", "FIN", "RDY 1",
    ]  # fmt: skip
    assert second == ["IDENTIFY", "SUB", "RDY 1", "RDY 5", "FIN", "FIN"]


def test_pause(play: Play) -> None:
    with scripted_nsqd([b"good"], quiet=0.6) as node:
        play(QUICK, node, changes=[(0.3, 0), (0.1, 5)])
    assert node.lines == ["IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "RDY 5"]

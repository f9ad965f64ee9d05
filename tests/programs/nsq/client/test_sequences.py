"""Both consumers, command by command, against the scripts of go-nsq's tests (NSQ spec 8.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.nsq.client import aio, blocking
from penstock.nsq.client.config import Config
from penstock.nsq.client.message import Message
from tests.programs.nsq.client.scripted_nsqd import PATIENCE_S, Script, ScriptedNsqd, scripted_nsqd

Play = Callable[..., None]
Changes = Sequence[tuple[int, int]]
"""Pairs of a number of commands that the node has got, and the ``max_in_flight`` to set then."""
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
            for heard, count in changes:
                await asyncio.to_thread(node.until_heard, heard)
                consumer.max_in_flight = count
            await asyncio.to_thread(node.thread.join, 2 * PATIENCE_S)
            await consumer.close(0)
            await running

    asyncio.run(play())


def play_blocking(config: Config, node: ScriptedNsqd, changes: Changes = ()) -> None:
    left = list(changes)
    addresses = [node.address]
    with blocking.Consumer("t", "ch", nsqd_tcp_addresses=addresses, config=config) as consumer:
        while node.thread.is_alive():
            if left and len(node.lines) >= left[0][0]:
                consumer.max_in_flight = left.pop(0)[1]
            message = consumer.get(0.02)
            if message is not None:
                consumer._handle(handle, message)  # what ``run`` does with each


@pytest.fixture(params=[play_aio, play_blocking], ids=["aio", "blocking"])
def play(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_consumer_backoff(play: Play) -> None:
    messages = [b"good"] * 3 + [b"bad"] * 2 + [b"good"] * 2
    lines = [
        "IDENTIFY", "SUB", "RDY 5", "FIN", "FIN", "FIN",
        "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "FIN", "RDY 1", "RDY 5",
        "FIN",
    ]  # fmt: skip
    with scripted_nsqd(Script(messages, lines)) as node:
        play(QUICK, node)


def test_requeue_no_backoff(play: Play) -> None:
    config = Config(max_in_flight=1, backoff_multiplier=0.01)
    lines = [
        "IDENTIFY", "SUB", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0", "RDY 1", "FIN",
    ]  # fmt: skip
    with scripted_nsqd(Script([b"requeue", b"again", b"good"], lines)) as node:
        play(config, node)


def test_backoff_disconnect(play: Play) -> None:
    config = Config(
        max_in_flight=5,
        backoff_multiplier=0.01,
        lookupd_poll_interval=0.01,
        rdy_redistribute_interval=0.01,
    )
    first = [
        "IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "REQ 0", "RDY 1", "RDY 0", "REQ 0",
        "RDY 1", "RDY 0", "FIN", "RDY 1",
    ]  # fmt: skip
    second = ["IDENTIFY", "SUB", "RDY 1", "RDY 5", "FIN", "FIN"]
    with scripted_nsqd(
        Script([b"good", b"requeue", b"requeue", b"good"], first),
        Script([b"good", b"good"], second),
    ) as node:
        play(config, node)


def test_pause(play: Play) -> None:
    lines = ["IDENTIFY", "SUB", "RDY 5", "FIN", "RDY 0", "RDY 5"]
    with scripted_nsqd(Script([b"good"], lines)) as node:
        play(QUICK, node, changes=[(4, 0), (5, 5)])

"""One node of a producer: dialled when needed, left alone for a while when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from penstock.core.units import SECOND
from penstock.nsq.client.aio.node import RETRY_DELAY, RETRY_DELAY_MAX, Node
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, NotConnected, ServerError
from penstock.nsq.client.publishing import Request, Router
from penstock.testing.clock import FakeClock
from tests.unit.nsq.client.fakes import fake_nsqd
from tools.harness.ports import unused_address


class Told:
    """What a node's router hears, and what is to be sent again."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def succeeded(self, request: Request) -> None:
        self.heard.put_nowait("answered")

    def refused(self, request: Request, error: ServerError) -> list[Request]:
        self.heard.put_nowait(f"refused {error.code}")
        return []

    def behind(self, requests: Sequence[Request], error: ServerError) -> list[Request]:
        return list(requests)

    def fail(self, request: Request, error: ClientError) -> None:
        self.heard.put_nowait("failed")

    def lost(
        self, requests: Sequence[Request], error: ClientError, *, was_sent: bool
    ) -> list[Request]:
        self.heard.put_nowait(f"lost {len(requests)} {'sent' if was_sent else 'unsent'}")
        return []

    def again(self, requests: Sequence[Request]) -> None:
        if requests:
            self.heard.put_nowait(f"{len(requests)} again")

    async def next(self) -> str:
        async with asyncio.timeout(30):
            return await self.heard.get()


def node_of(address: str, config: Config, clock: FakeClock, told: Told) -> Node:
    return Node(address, config, clock, cast(Router, told), told.again)


def request(body: bytes = b"x") -> Request:
    return Request("t", [body], [], len(body))


async def test_answers_and_refusals() -> None:
    with fake_nsqd() as nsqd:
        told = Told()
        node = node_of(nsqd.address, Config(), FakeClock(), told)
        assert not node.is_connected
        node.send([request()])
        assert await told.next() == "answered"
        assert node.is_connected
        nsqd.refuse = lambda bodies: "E_BAD_MESSAGE no" if bodies == [b"bad"] else ""
        node.send([request(b"bad"), request(), request()])
        assert await told.next() == "refused E_BAD_MESSAGE"
        assert await told.next() == "2 again"
        assert not node.is_connected
        assert node.stop() == []
        await node.close()


async def test_an_unreachable_node_is_left_alone_for_longer_each_time() -> None:
    clock, told = FakeClock(), Told()
    node = node_of(unused_address(), Config(), clock, told)
    delay = RETRY_DELAY
    for _ in range(7):
        node.send([request(), request()])
        assert await told.next() == "lost 2 unsent"
        clock.advance(delay - 1)
        node.send([request()])
        assert told.heard.get_nowait() == "lost 1 unsent"  # at once, without a dial
        clock.advance(1)
        delay = min(2 * delay, RETRY_DELAY_MAX)
    assert delay == RETRY_DELAY_MAX == SECOND
    with pytest.raises(NotConnected, match="connection refused"):
        await node.ping()


async def test_what_was_under_way_is_given_back_at_the_end() -> None:
    with fake_nsqd() as nsqd:
        told = Told()
        node = node_of(nsqd.address, Config(), FakeClock(), told)
        waiting, sent = request(), request()
        node.send([waiting])
        assert node.stop() == [waiting]
        await node.close()
        await node.ping()
        nsqd.silent = True
        node.send([sent])
        assert node.stop() == [sent]
        await node.close()
    assert told.heard.empty()

"""A scripted server, and the client libraries that meet it: asyncio's and the blocking one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest

from penstock.nsq.client import aio, blocking
from penstock.nsq.client.aio.connection import Connection as AioConnection
from penstock.nsq.client.blocking.connection import Connection as BlockingConnection
from penstock.nsq.client.config import Config
from tests.programs.shells import Awaited
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd

Made = TypeVar("Made")


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with fake_nsqd() as server:
        yield server


class Shell(NamedTuple):
    """A client library, with the surface of asyncio's."""

    producer: Callable[..., Any]
    consumer: Callable[..., Any]
    open: Callable[..., Any]
    """Open a connection to an address, with a configuration."""


async def _open_aio(address: str, config: Config | None = None) -> AioConnection:
    return await AioConnection.open(
        address, config or Config(), on_frame=lambda *_: None, on_lost=lambda *_: None
    )


async def _open_blocking(address: str, config: Config | None = None) -> Awaited:
    return Awaited(await asyncio.to_thread(BlockingConnection, address, config), AioConnection)


SHELLS = {
    "aio": Shell(aio.Producer, aio.Consumer, _open_aio),
    "blocking": Shell(
        lambda *addresses, **options: Awaited(
            blocking.Producer(*addresses, **options), aio.Producer
        ),
        lambda *names, **options: Awaited(blocking.Consumer(*names, **options), aio.Consumer),
        _open_blocking,
    ),
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Shell:
    return SHELLS[request.param]


def consume(
    consumer: Callable[..., Made], nsqd: FakeNsqd, max_in_flight: int = 10, **options: Any
) -> Made:
    """A consumer of the server, with options of the configuration."""
    return consumer(
        "t",
        "c",
        nsqd_tcp_addresses=[nsqd.address],
        config=Config(max_in_flight=max_in_flight, **options),
        reconnect_delay=0.01,
    )


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that comes about without the client."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # the condition is a matter of another thread
            await asyncio.sleep(0.005)


async def work_until(consumer: Any, condition: Callable[[], object]) -> None:
    """Let a consumer work until something is so; it gets no message meanwhile."""
    async with asyncio.timeout(30):
        while not condition():
            assert await consumer.get_delivery(0.005) is None


def bodies(nsqd: FakeNsqd) -> list[bytes]:
    """The bodies of what was published, one after the other."""
    return [body for _, several in nsqd.published for body in several]

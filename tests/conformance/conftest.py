"""Daemons for the conformance tests: ours, or the program that PENSTOCK_NSQD names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.testing.daemons import Daemon, run_nsqd

from .certificates import Certificates
from .client_site import MAKES, Site
from .server import Server

Start = Callable[..., Awaitable[Server]]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """One set for all tests."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def shared() -> Iterator[Callable[..., Daemon]]:
    """Gives an nsqd with these flags, the same one to all tests of a module that ask for it."""
    running: dict[tuple[str, ...], Daemon] = {}
    with ExitStack() as stack:

        def get(*flags: str) -> Daemon:
            if flags not in running:
                running[flags] = stack.enter_context(run_nsqd(*flags))
            return running[flags]

        yield get


@pytest.fixture
async def start(shared: Callable[..., Daemon]) -> AsyncIterator[Start]:
    """Gives an nsqd with these flags: a shared one, or one for this test with a data path.

    Tests that share it use topics of their own.
    """
    servers: list[Server] = []
    with ExitStack() as stack:

        async def start_one(*flags: str, data_path: Path | None = None) -> Server:
            if data_path is None:
                daemon = await asyncio.to_thread(shared, *flags)
            else:
                context = run_nsqd(*flags, data_path=data_path)
                daemon = await asyncio.to_thread(stack.enter_context, context)
            servers.append(Server(daemon))
            return servers[-1]

        yield start_one
        for server in servers:
            await server.close()


@pytest.fixture
async def nsqd(start: Start) -> Server:
    """An nsqd with the default flags."""
    return await start()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic for this test alone."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", request.node.name)[:54]


@pytest.fixture(scope="module", params=MAKES, ids=lambda folder: "go" if folder else "ours")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(request.param, stack)

"""Real servers for a module's tests, and the client libraries: asyncio's and the blocking one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.rocketmq.client import Message, aio, blocking
from tests.programs.shells import Awaited
from tools.harness.rocketmq.servers import ELSEWHERE, QUICK, Servers, shared_servers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At servers that somebody else has started, leave out what starts its own."""
    if ELSEWHERE in os.environ:
        here = Path(__file__).parent
        items[:] = [
            item for item in items
            if here not in item.path.parents or "servers" in getattr(item, "fixturenames", ())
        ]  # fmt: skip


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    quick = {"transactionCheckInterval": 500, "transactionTimeOut": 300,
             "transactionCheckMax": 10_000, "messageDelayLevel": " ".join(["1s"] * 18)}  # fmt: skip
    with shared_servers(traceTopicEnable="true", enablePropertyFilter="true", **quick) as found:
        yield found


class Shell(NamedTuple):
    """A client library, with the surface of asyncio's."""

    producer: Callable[..., Any]
    lite_pull_consumer: Callable[..., Any]
    pop_consumer: Callable[..., Any]


class Site(NamedTuple):
    """A topic at servers, for one test of one client library."""

    shell: Shell
    servers: Servers
    topic: str

    def make(self, queues: int = 1) -> None:
        """Make the topic."""
        self.servers.make_topic(self.topic, queues)

    async def fill(self, *bodies: bytes) -> None:
        """Send messages to the first queue of the topic."""
        async with self.producer() as producer:
            for body in bodies:
                await producer.send(Message(self.topic, body), queue=lambda every: every[0])

    def producer(self, **more: Any) -> Any:
        return self.shell.producer("PG", self.servers.address, **{"config": QUICK, **more})

    def lite_pull_consumer(self, **more: Any) -> Any:
        """One of the group that is named for the topic."""
        more = {"config": QUICK, **more}
        return self.shell.lite_pull_consumer(self.topic, self.servers.address, **more)

    def pop_consumer(self, **more: Any) -> Any:
        more = {"config": QUICK, **more}
        return self.shell.pop_consumer(self.topic, self.topic, self.servers.address, **more)


def _awaited(client: Callable[..., Any], model: type) -> Callable[..., Awaited]:
    return lambda *arguments, **options: Awaited(client(*arguments, **options), model)


SHELLS = {
    "aio": Shell(aio.Producer, aio.LitePullConsumer, aio.PopConsumer),
    "blocking": Shell(
        _awaited(blocking.Producer, aio.Producer),
        _awaited(blocking.LitePullConsumer, aio.LitePullConsumer),
        _awaited(blocking.PopConsumer, aio.PopConsumer),
    ),
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Shell:
    return SHELLS[request.param]


@pytest.fixture
def site(shell: Shell, servers: Servers, topic: str) -> Site:
    return Site(shell, servers, topic)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses, and a group's name as well."""
    name: str = request.node.name
    return "".join(each if each.isalnum() else "-" for each in name.removeprefix("test_"))

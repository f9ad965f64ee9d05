"""A name server and a broker of ours in processes of their own, and options for a busy machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import Config
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import MqBroker, MqNamesrv, run_rocketmq

ELSEWHERE = "PENSTOCK_ROCKETMQ_SERVERS"
SECONDS = 60.0
QUICK = Config(
    connect_timeout=SECONDS,
    request_timeout=SECONDS,
    send_msg_timeout=SECONDS,
    consumer_pull_timeout=2 * SECONDS,
    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    pull_time_delay_when_exception=0.2,
    suspend_current_queue_time=0.1,
    persist_consumer_offset_interval=0.5,
    rebalance_interval=0.5,
    heartbeat_broker_interval=0.5,
    poll_name_server_interval=0.5,
    instance_name="",
)


@dataclass
class Elsewhere:
    """A server that somebody else has started."""

    rocketmq: str

    def start(self) -> None:
        raise AssertionError("no server of ours")

    kill = start


@dataclass
class Servers:
    name_server: MqNamesrv | Elsewhere
    broker: MqBroker | Elsewhere

    @property
    def address(self) -> str:
        """The name server's."""
        return self.name_server.rocketmq

    def make_topic(self, topic: str, queues: int = 4) -> None:
        """Make it, with this number of queues."""
        make_topic(self.broker, topic, queues)


@contextmanager
def shared_servers(**properties: object) -> Iterator[Servers]:
    """The same; those at ``PENSTOCK_ROCKETMQ_SERVERS=name server,broker`` where that is set."""
    if given := os.environ.get(ELSEWHERE):
        name_server, broker = given.split(",")
        yield Servers(Elsewhere(name_server), Elsewhere(broker))
        return
    with run_servers(**properties) as found:
        yield found


@contextmanager
def run_servers(**properties: object) -> Iterator[Servers]:
    """A name server and one broker; TLS is for both."""
    with run_rocketmq(**properties) as found:
        yield Servers(found.name_server, found.broker)


def wait_for_broker(name_server: MqNamesrv, broker: str) -> None:
    """Wait until the name server knows it; each broker has a topic named for it."""
    wait_for_route(name_server.rocketmq, broker)


def wait_for_route(name_server: str, topic: str) -> None:
    """Wait until the name server knows a topic; a new one is told a moment after it was made."""
    link = RemotingLink(name_server, SECONDS)
    ends = time.monotonic() + SECONDS
    while link.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code:
        assert time.monotonic() < ends, f"no name server knows {topic}"
        time.sleep(0.05)
    link.close()


def make_topic(broker: MqBroker | Elsewhere, topic: str, queues: int = 4) -> None:
    """Make it on this broker."""
    link = RemotingLink(broker.rocketmq, SECONDS)
    answer = link.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": topic, "defaultTopic": "TBW102", "perm": 6, "readQueueNums": queues,
            "writeQueueNums": queues, "topicFilterType": "SINGLE_TAG", "order": "false",
        },
    )  # fmt: skip
    link.close()
    assert answer.code == 0, answer.remark


@contextmanager
def patience(stop: Callable[[], object]) -> Iterator[None]:
    """Stop what the block waits for, in the end, so that a test fails rather than hangs."""
    end = Timer(2 * SECONDS, stop)
    end.start()
    try:
        yield
    finally:
        end.cancel()


async def until(state: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for a state."""
    ends = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < ends, "it did not come to that"
        await asyncio.sleep(0.02)

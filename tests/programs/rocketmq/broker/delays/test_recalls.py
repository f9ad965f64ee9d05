"""The cases of `rocketmq/broker/delays/test_recalls.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from penstock.core.units import MINUTE
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock
from tests.programs.rocketmq.broker.pull.test_pulling import FOR_LONG_MS, pull, send
from tests.unit.rocketmq.broker.conftest import fake_node
from tests.unit.rocketmq.conftest import LoopThread
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.raw_client import RawClient

RECALL = 370


@pytest.fixture
def settings(settings: BrokerSettings) -> BrokerSettings:
    settings.recall_message_enable = True
    return settings


@pytest.fixture
def leaping() -> Leaping:
    return Leaping()


@pytest.fixture
def rocket(
    loop_thread: LoopThread, tmp_path: Path, settings: BrokerSettings, leaping: Leaping
) -> Iterator[RocketBroker]:
    host = fake_node(tmp_path, cast(FakeClock, leaping))
    broker = loop_thread.run(RocketBroker.start(settings, host))
    yield broker
    loop_thread.run(broker.close())
    host.broker.close()


def later(client: RawClient, body: bytes, delay_ms: int) -> Command:
    text = f"TIMER_DELAY_MS\x01{delay_ms}\x02UNIQ_KEY\x01{body.decode()}\x02"
    return send(client, "Timed", body, i=text)


def test_a_message_is_recalled_by_the_handle_of_its_answer(
    connect: Callable[[], RawClient], leaping: Leaping
) -> None:
    client = connect()
    assert "recallHandle" not in (send(client, "Timed", b"now").ext or {})
    handles = [(later(client, body, 600_000).ext or {})["recallHandle"] for body in (b"a", b"b")]
    answer = client.ask(RECALL, producerGroup="PG", topic="Timed", recallHandle=handles[0])
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "a")
    leaping.ahead_ns += 11 * MINUTE
    later(client, b"c", 1)  # which has the broker look for what is due
    found: list[bytes] = []
    while len(found) < 2:
        _, messages = pull(
            client, "Timed", 0, 1 + len(found), sysFlag=6, suspendTimeoutMillis=FOR_LONG_MS
        )
        found += [message.body for message in messages]
    assert sorted(found) == [b"b", b"c"]

"""A message for a time of its own over the wire, and its recall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.core.units import MINUTE
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import fake_node
from tests.unit.rocketmq.conftest import LoopThread
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import HELD, pull, send


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
    client: RawClient, leaping: Leaping
) -> None:
    assert "recallHandle" not in (send(client, "Timed", b"now").ext or {})
    first, _ = [later(client, body, 600_000).text("recallHandle") for body in (b"a", b"b")]
    recall: dict[str, Any] = {"producerGroup": "PG", "topic": "Timed", "recallHandle": first}
    answer = client.ask(RequestCode.RECALL_MESSAGE, **recall)
    assert (answer.code, answer.text("msgId")) == (0, "a")
    assert pull(client, "Timed", 0, 1)[0].code == 19, "it is not early"
    leaping.ahead_ns += 11 * MINUTE
    later(client, b"c", 1)  # which has the broker look for what is due
    found: list[bytes] = []
    while len(found) < 2:
        _, messages = pull(client, "Timed", 0, 1 + len(found), **HELD)
        found += [message.body for message in messages]
    assert sorted(found) == [b"b", b"c"]

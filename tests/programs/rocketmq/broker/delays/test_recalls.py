"""The cases of `rocketmq/broker/delays/test_recalls.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.rocketmq.broker.settings import BrokerSettings
from tests.programs.rocketmq.broker.pull.test_pulling import pull, send
from tests.unit.rocketmq.raw_client import RawClient

RECALL = 370


@pytest.fixture
def settings(settings: BrokerSettings) -> BrokerSettings:
    settings.recall_message_enable = True
    return settings


def test_a_message_is_recalled_by_the_handle_of_its_answer(
    connect: Callable[[], RawClient],
) -> None:
    client = connect()
    assert "recallHandle" not in (send(client, "Timed", b"now").ext or {})
    handles = []
    for body in (b"a", b"b"):
        text = f"TIMER_DELAY_MS\x011000\x02UNIQ_KEY\x01{body.decode()}\x02"
        handles.append((send(client, "Timed", body, i=text).ext or {})["recallHandle"])
    answer = client.ask(RECALL, producerGroup="PG", topic="Timed", recallHandle=handles[0])
    assert (answer.code, (answer.ext or {})["msgId"]) == (0, "a")
    _, messages = pull(client, "Timed", 0, 1, sysFlag=6, suspendTimeoutMillis=20_000)
    assert [message.body for message in messages] == [b"b"]

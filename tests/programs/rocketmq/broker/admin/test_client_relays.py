"""The cases of `rocketmq/broker/admin/test_client_relays.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.rocketmq.broker.admin import client_relays
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient


def test_through_real_connections(connect: Callable[[], RawClient]) -> None:
    admin, consumer = connect(), connect()
    assert consumer.ask(34, heartbeat("c1", "G")).code == 0
    asked = admin.begin(307, consumerGroup="G", clientId="c1", jstackEnable="false")
    question = consumer.asked(307)
    assert question.ext == {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"}
    consumer.reply(question, body=b'{"mqTable":{{"queueId":0}:1}}')
    assert admin.answer_to(asked).body == b'{"mqTable":{{"queueId":0}:1}}'
    asked = admin.begin(307, consumerGroup="G", clientId="c1")
    consumer.asked(307)
    consumer.close()
    answer = admin.answer_to(asked)
    assert answer.code == 1
    assert "is gone" in (answer.remark or "")


def test_a_consumer_that_takes_too_long(
    connect: Callable[[], RawClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_relays, "ANSWER_S", 0.05)
    admin, consumer = connect(), connect()
    assert consumer.ask(34, heartbeat("c1", "G")).code == 0
    answer = admin.ask(307, consumerGroup="G", clientId="c1")
    assert (answer.code, answer.remark) == (
        207,
        f"consumer <G> <c1> Timeout: {consumer.address} did not answer within 0.05 s",
    )

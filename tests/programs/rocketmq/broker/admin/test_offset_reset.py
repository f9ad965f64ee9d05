"""The cases of `rocketmq/broker/admin/test_offset_reset.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import Language
from tests.programs.rocketmq.broker.pull.test_pulling import send
from tests.unit.rocketmq.broker.admin.test_offset_reset import by_queue
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient


def test_through_real_connections(connect: Callable[[], RawClient]) -> None:
    admin, consumer = connect(), connect()
    assert consumer.ask(34, heartbeat("c1", "G")).code == 0
    for number in range(3):
        answer = send(admin, "T", b"%d" % number, queue=0)
        assert answer.code == 0
    for queue in range(4):
        consumer.ask(15, consumerGroup="G", topic="T", queueId=queue, commitOffset=0)
    reset: dict[str, Any] = {"topic": "T", "group": "G", "timestamp": -1, "isForce": "true"}
    answer = admin.ask(222, **reset)
    assert (answer.code, by_queue(answer.body)) == (0, {0: 3, 1: 0, 2: 0, 3: 0})
    told = consumer.asked(220)
    assert told.is_one_way
    assert told.body == answer.body
    answer = admin.ask(222, language_=Language.CPP, **reset)
    assert len(fastjson.loads(consumer.asked(220).body)["offsetTable"]) == 4
    asked = admin.begin(223, topic="T", group="G")
    question = consumer.asked(221)
    assert question.ext == {"topic": "T", "group": "G"}
    table = b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}'
    consumer.reply(question, body=b'{"consumerTable":{},"messageQueueTable":' + table + b"}")
    assert admin.answer_to(asked).body == (
        b'{"consumerTable":{"c1":' + table + b'},"messageQueueTable":{}}'
    )

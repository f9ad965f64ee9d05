"""A broker of RocketMQ's on a file system that is frozen: what it answers meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.testing.daemons import MqBroker, run_mqbroker, run_mqnamesrv
from tests import frozen_disk
from tests.frozen_disk import FROZEN_S, asked, frozen, until_healthy
from tests.programs.rocketmq.broker.asking import pull, send, send_fields
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient

pytestmark = frozen_disk.MARKS
COUNT = 20


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    with frozen_disk.mounted(tmp_path) as folder:
        yield folder


@pytest.fixture
def monitoring() -> str:
    return unused_address()


@pytest.fixture
def broker(mounted: Path, monitoring: str) -> Iterator[MqBroker]:
    with (
        run_mqnamesrv() as names,
        run_mqbroker(
            name_server=names.rocketmq, data_path=mounted / "store", monitoringAddress=monitoring
        ) as broker,
    ):
        broker.wait_for("registered")
        yield broker


@pytest.fixture
def connect() -> Iterator[Callable[[MqBroker], RawClient]]:
    """Connections that are closed at the end."""
    with ExitStack() as opened:

        def connect(broker: MqBroker) -> RawClient:
            return opened.enter_context(closing(RawClient(broker.port)))

        yield connect


def test_sends_wait_and_pulls_and_heartbeats_go_on(
    mounted: Path,
    broker: MqBroker,
    monitoring: str,
    connect: Callable[[MqBroker], RawClient],
) -> None:
    port = int(monitoring.rpartition(":")[2])
    producer, consumer = connect(broker), connect(broker)
    for number in range(COUNT):
        assert send(producer, "T", b"%d" % number).code == ResponseCode.SUCCESS
    alive = heartbeat("c", "CG", topic="T")
    assert consumer.ask(RequestCode.HEART_BEAT, alive).code == 0
    time.sleep(0.1)  # the next write is no part of a stream, which the loop itself makes
    with frozen(mounted) as began:
        waiting = producer.begin(RequestCode.SEND_MESSAGE_V2, b"w", **send_fields("T"))
        assert consumer.ask(RequestCode.HEART_BEAT, alive).code == 0
        for number in range(COUNT):
            answer, [message, *_] = pull(consumer, "T", 0, number)
            assert (answer.code, message.body) == (ResponseCode.SUCCESS, b"%d" % number)
        assert consumer.ask(RequestCode.HEART_BEAT, alive).code == 0
        answer = consumer.ask(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="CG", topic="T",
                              queueId=0)  # fmt: skip
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        while asked(port, "GET", "/ping")[0] == 200:
            assert time.monotonic() - began < FROZEN_S - 0.5
            time.sleep(0.05)
        assert asked(port, "GET", "/live")[:2] == (200, b"OK")
        assert b"the disk has not answered for" in asked(port, "GET", "/ready")[1]
        new = send(consumer, "a new topic's")
        assert new.code != ResponseCode.SUCCESS
        assert time.monotonic() - began < FROZEN_S, "while it is frozen"
    assert producer.answer_to(waiting).code == ResponseCode.SUCCESS
    until_healthy(port)
    broker.kill()
    broker.start()
    _, messages = pull(connect(broker), "T", 0, 0)
    assert [each.body for each in messages] == [*(b"%d" % number for number in range(COUNT)), b"w"]

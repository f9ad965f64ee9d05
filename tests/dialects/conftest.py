"""One node that speaks both dialects, and clients of each."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.topic import Topic
from penstock.cli.shared.dialects import register_dialects
from penstock.log_api.log_client import LogClient
from penstock.nsq.client import Message
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.nsqd.daemon import Nsqd
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from tests import nsqds
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient

SECONDS = 30.0
SUSPEND_AND_SUBSCRIPTION = 6


class Both:
    """An nsqd with RocketMQ's broker beside it, which can be started anew."""

    def __init__(self, path: Path, loop_thread: LoopThread, **options: Any) -> None:
        self._path = path
        self._loop = loop_thread
        self._options = options
        self._closing: list[Callable[[], None]] = []
        self._clients: list[RawClient] = []
        self._rocketmq: RocketBroker | None = None
        self.settings: dict[str, Any] = {}
        self.nsqd: Nsqd

    def start(self) -> None:
        register_dialects()
        self._loop.run(self._start(self._settings()))

    async def _start(self, settings: BrokerSettings | None) -> None:
        options = NsqdOptions(
            data_path=str(self._path), tcp_address="127.0.0.1:0", http_address="127.0.0.1:0",
            **self._options,
        )  # fmt: skip
        node = await open_node(options)
        self.nsqd = await Nsqd.open(node, options)
        if settings is not None:
            self._rocketmq = await RocketBroker.start(settings, node)
        node.start()

    def _settings(self) -> BrokerSettings:
        settings = BrokerSettings()
        settings.broker_name = "broker-a"
        settings.broker_ip1 = settings.bind_address = "127.0.0.1"
        settings.listen_port = 0
        settings.namesrv_addr = ""
        settings.store_path_root_dir = str(self._path)
        settings.enable_property_filter = True
        for name, value in self.settings.items():
            setattr(settings, name, value)
        return settings

    def stop(self) -> None:
        for close in self._closing:
            close()
        for client in self._clients:
            client.close()
        self._closing.clear()
        self._clients.clear()
        if self._rocketmq is not None:
            self._loop.run(self._rocketmq.close())
            self._rocketmq = None
        self._loop.run(nsqds.stop(self.nsqd))

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop_rocketmq(self) -> None:
        """Start anew as a plain nsqd."""
        self.stop()
        self._loop.run(self._start(None))

    @property
    def services(self) -> Services:
        assert self._rocketmq is not None
        return self._rocketmq.services

    def topic(self, name: str) -> Topic:
        return self.nsqd.node.broker.topics[name]

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something in the node's own loop."""
        self._loop.run(work)

    def hold(self) -> None:
        """What RocketMQ's side does every few seconds for its groups' messages on NSQ's topics."""

        async def hold() -> None:
            self.services.retention.hold()

        self.run(hold())

    # --- NSQ's side ----------------------------------------------------------------------------

    def publish(self, topic: str, *bodies: bytes) -> None:
        """One MPUB."""
        with Producer(f"127.0.0.1:{self.nsqd.ports.tcp}") as producer:
            producer.multi_publish(topic, bodies)

    def consumer(self, topic: str, channel: str = "c", **more: Any) -> Consumer:
        """A consumer of a channel, which is there from now on."""
        self.http("POST", f"/topic/create?topic={topic}")
        self.http("POST", f"/channel/create?topic={topic}&channel={channel}")
        address = f"127.0.0.1:{self.nsqd.ports.tcp}"
        consumer = Consumer(topic, channel, nsqd_tcp_addresses=[address], **more)
        self._closing.append(consumer.close)
        return consumer

    def log(self) -> LogClient:
        client = LogClient(f"127.0.0.1:{self.nsqd.ports.http}")
        self._closing.append(client.close)
        return client

    def http(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer, which must be 200: JSON, or text that is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.nsqd.ports.http, timeout=SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            data = response.read()
            assert response.status == 200, data
            return json.loads(data) if data[:1] in b"{[" and data else data.decode()
        finally:
            connection.close()

    # --- RocketMQ's side -----------------------------------------------------------------------

    def client(self) -> RawClient:
        assert self._rocketmq is not None
        self._clients.append(RawClient(self._rocketmq.port))
        return self._clients[-1]

    def make_topic(self, client: RawClient, topic: str, queues: int = 4) -> None:
        answer = client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102",
            readQueueNums=queues, writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG",
            order="false",
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def send(
        self, client: RawClient, topic: str, body: bytes, queue: int = 0, sys_flag: int = 0,
        **properties_: str,
    ) -> dict[str, str]:  # fmt: skip
        """The fields of the answer."""
        answer = client.ask(
            RequestCode.SEND_MESSAGE, body, producerGroup="PG", topic=topic, defaultTopic="TBW102",
            defaultTopicQueueNums=4, queueId=queue, sysFlag=sys_flag, bornTimestamp=1000, flag=0,
            properties=properties.join(properties_), reconsumeTimes=0, unitMode="false",
        )  # fmt: skip
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.ext or {}

    def pull(
        self, client: RawClient, topic: str, queue: int = 0, offset: int = 0, count: int = 32,
        subscription: str = "*", kind: str = "TAG",
    ) -> Command:  # fmt: skip
        return client.ask(
            RequestCode.PULL_MESSAGE, consumerGroup="G", topic=topic, queueId=queue,
            queueOffset=offset, maxMsgNums=count, sysFlag=4, commitOffset=0,
            suspendTimeoutMillis=1000, subscription=subscription, subVersion=1,
            expressionType=kind,
        )  # fmt: skip

    def pulled(
        self, client: RawClient, topic: str, queue: int = 0, offset: int = 0
    ) -> list[StoredMessage]:
        answer = self.pull(client, topic, queue, offset)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return list(decode_all(answer.body))


def received(consumer: Consumer, count: int) -> list[Message]:
    """So many messages of a consumer, finished."""
    messages = []
    for _ in range(count):
        message = consumer.get(SECONDS)
        assert message is not None
        assert message.finish()
        messages.append(message)
    return messages


def bodies(consumer: Consumer, count: int) -> list[bytes]:
    return [message.body for message in received(consumer, count)]


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def both(tmp_path: Path, loop_thread: LoopThread) -> Iterator[Both]:
    running = Both(tmp_path, loop_thread, metrics=True, e2e_processing_latency_percentiles=(1.0,),
                   e2e_processing_latency_window_time=60 * 10**9)  # fmt: skip
    running.start()
    yield running
    running.stop()

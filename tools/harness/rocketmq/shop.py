"""A small cluster of RocketMQ with something on it: a name server, a broker, topics and groups.

| topic | what it has |
|---|---|
| `trades` (4 queues) | 12 messages |
| `%DLQ%failing` | the 3 messages with the tag `bad`, which the group `failing` did not take |

| group | what it is |
|---|---|
| `billing` | has a member, which has consumed all |
| `archive` | without a member, at the beginning of every queue |
| `failing` | has a member, which lets no message through |
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import Config, Message
from penstock.rocketmq.client.blocking import Producer, PushConsumer
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import MqBroker, MqNamesrv

from .servers import Elsewhere, shared_servers

TOPIC = "trades"
QUEUES = 4
MESSAGES = 12
BAD = 3
DEAD_LETTERS = "%DLQ%failing"
SECONDS = 60.0
_CONFIG = Config(
    request_timeout=SECONDS,
    send_msg_timeout=SECONDS,
    consumer_pull_timeout=2 * SECONDS,
    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    persist_consumer_offset_interval=0.1,
    heartbeat_broker_interval=1.0,
    rebalance_interval=0.5,
    consume_threads=1,
    max_reconsume_times=0,
    enable_msg_trace=True,
)


@dataclass
class Shop:
    """The servers, and what the member of `billing` was given."""

    name_server: MqNamesrv | Elsewhere
    broker: MqBroker | Elsewhere
    consumed: list[Received] = field(default_factory=list)
    refused: list[Received] = field(default_factory=list)

    @property
    def ours(self) -> MqBroker:
        """The broker, which must be ours: it has NSQ's ports as well."""
        assert isinstance(self.broker, MqBroker)
        return self.broker

    def ask(self, code: RequestCode, fields: dict[str, object], body: bytes = b"") -> None:
        """Have the broker do something."""
        link = RemotingLink(self.broker.rocketmq, SECONDS)
        answer = link.ask(code, {name: str(value) for name, value in fields.items()}, body)
        link.close()
        assert answer.code == 0, answer.remark

    def committed(self, group: str, queue: int) -> int:
        """The offset of a group in a queue of `trades`."""
        link = RemotingLink(self.broker.rocketmq, SECONDS)
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue)}
        answer = link.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        link.close()
        return answer.int64("offset")

    def send(self, number: int, producer: Producer) -> None:
        """A message, to one queue after the other."""
        queue = producer.queues(TOPIC)[number % QUEUES]
        tag = "bad" if number < BAD else "good"
        body = fastjson.dumps({"trade": number, "price": 100 + number, "of": "<b>tea</b>"})
        message = Message(TOPIC, body, tag, f"trade-{number}", {"desk": "north"})
        producer.send(message, queue=queue)


@contextmanager
def running_shop() -> Iterator[Shop]:
    """The cluster, until the end of the block; its servers may be others, see `shared_servers`."""
    with ExitStack() as stack:
        servers = stack.enter_context(shared_servers(traceTopicEnable="true"))
        name_server, broker = servers.name_server, servers.broker
        shop = Shop(name_server, broker)
        stack.enter_context(_silence())
        _until(lambda: _is_routed(name_server.rocketmq, "broker-a"))
        _make(shop)
        _until(lambda: _is_routed(name_server.rocketmq, TOPIC))
        stack.enter_context(_producer(shop))
        _until(lambda: _has_producer(broker.rocketmq))
        stack.enter_context(_member("billing", shop, lambda each: shop.consumed.append(each)))
        stack.enter_context(_member("failing", shop, lambda each: _refuse(shop, each)))
        _until(lambda: len(shop.consumed) >= MESSAGES)
        _until(lambda: _is_routed(name_server.rocketmq, DEAD_LETTERS))
        _until(lambda: _committed(shop, "failing") >= MESSAGES)
        _until(lambda: _committed(shop, "billing") >= MESSAGES)
        yield shop


@contextmanager
def _silence() -> Iterator[None]:
    """Let the clients of this process log nothing until the end of the block."""
    logger = logging.getLogger("penstock.rocketmq")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def _make(shop: Shop) -> None:
    shop.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": TOPIC, "defaultTopic": "TBW102", "perm": 6, "readQueueNums": QUEUES,
            "writeQueueNums": QUEUES, "topicFilterType": "SINGLE_TAG", "order": "false",
        },
    )  # fmt: skip
    body = fastjson.dumps({"groupName": "archive"})
    shop.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
    for queue in range(QUEUES):
        fields: dict[str, object] = {
            "consumerGroup": "archive", "topic": TOPIC, "queueId": queue, "commitOffset": 0,
        }  # fmt: skip
        shop.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def _refuse(shop: Shop, message: Received) -> None:
    shop.refused.append(message)
    if message.tags == "bad":
        raise ValueError("no such trade")


@contextmanager
def _producer(shop: Shop) -> Iterator[None]:
    """A producer that has sent all messages, and tells brokers that it is still there."""
    ended = Event()
    with Producer("desk", shop.name_server.rocketmq, config=_CONFIG) as producer:
        for number in range(MESSAGES):
            shop.send(number, producer)

        def work() -> None:
            while not ended.is_set():
                producer.work(0.2)

        thread = Thread(target=work, name="desk")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(SECONDS)


@contextmanager
def _member(group: str, shop: Shop, handler: Callable[[Received], object]) -> Iterator[None]:
    """A member of a group in a thread."""
    consumer = PushConsumer(group, shop.name_server.rocketmq, config=_CONFIG)
    consumer.subscribe(TOPIC)
    thread = Thread(target=consumer.run, args=(handler,), name=group)
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join(SECONDS)
        consumer.close()


def _is_routed(name_server: str, topic: str) -> bool:
    link = RemotingLink(name_server, SECONDS)
    answer = link.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    link.close()
    return answer.code == 0


def _has_producer(broker: str) -> bool:
    link = RemotingLink(broker, SECONDS)
    answer = link.ask(RequestCode.GET_ALL_PRODUCER_INFO, {})
    link.close()
    return b"desk" in answer.body


def _committed(shop: Shop, group: str) -> int:
    return sum(shop.committed(group, queue) for queue in range(QUEUES))


def _until(state: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not state():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)

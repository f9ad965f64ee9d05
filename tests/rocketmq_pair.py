"""A name server, a master and its slave as programs, and what they are asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, NamedTuple

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import Config
from penstock.rocketmq.client.blocking import PushConsumer
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.daemons import MqBroker, MqNamesrv, run_mqbroker, run_mqnamesrv
from tests.copies import until

SECONDS = 60.0
TOPIC = "trades"
QUEUES = 4
QUICK = {"flushConsumerOffsetInterval": 100, "transactionTimeOut": 100,
         "transactionCheckInterval": 200, "transactionCheckMax": 10_000,
         "defaultTopicQueueNums": QUEUES}  # fmt: skip
CONFIG = Config(
    request_timeout=SECONDS,
    send_msg_timeout=SECONDS,
    consumer_pull_timeout=2 * SECONDS,
    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    persist_consumer_offset_interval=0.1,
    poll_name_server_interval=0.2,
    heartbeat_broker_interval=1.0,
    rebalance_interval=0.2,
    consume_threads=1,
)


class Pair(NamedTuple):
    """The three of them."""

    name_server: MqNamesrv
    old: MqBroker
    new: MqBroker


@contextmanager
def running_pair(**properties: Any) -> Iterator[Pair]:
    """A master, and its slave that has found it at the name server."""
    found: dict[str, Any] = {**QUICK, **properties}
    with (
        run_mqnamesrv() as name_server,
        run_mqbroker(name_server=name_server.rocketmq, **found) as old,
    ):
        old.wait_for("registered")
        slave = {**found, "brokerRole": "SLAVE", "brokerId": 1}
        with run_mqbroker(name_server=name_server.rocketmq, **slave) as new:
            until(new, whole=True)
            yield Pair(name_server, old, new)


def ask(address: str, code: RequestCode, body: bytes = b"", **fields: object) -> Command:
    """The answer to a request."""
    link = RemotingLink(address, SECONDS)
    try:
        return link.ask(code, fields, body)
    finally:
        link.close()


def brokers(name_server: MqNamesrv, topic: str) -> dict[str, str]:
    """The addresses in a topic's route, by broker id."""
    answer = ask(name_server.rocketmq, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic,
                 acceptStandardJsonOnly="true")  # fmt: skip
    if answer.code != 0:
        return {}
    [data] = fastjson.loads(answer.body)["brokerDatas"]
    return {str(number): str(address) for number, address in data["brokerAddrs"].items()}


def pull(broker: MqBroker, queue: int, topic: str = TOPIC) -> Command:
    """All that a queue has, as stored."""
    return ask(broker.rocketmq, RequestCode.PULL_MESSAGE, consumerGroup="looks", topic=topic,
               queueId=queue, queueOffset=0, maxMsgNums=32, sysFlag=4, commitOffset=0,
               suspendTimeoutMillis=0, subscription="*", subVersion=0)  # fmt: skip


def until_whole(pair: Pair) -> None:
    """Wait until the slave has every message of the topic, and the tables as they are now."""

    def has_all() -> bool:
        return all(pull(pair.new, queue).body == pull(pair.old, queue).body
                   for queue in range(QUEUES))  # fmt: skip

    wait(has_all, pair.new)
    until(pair.new, whole=True, error=None)


def committed(broker: MqBroker, group: str, topic: str = TOPIC) -> list[int]:
    """The offsets of a group, -1 for none."""
    found = []
    for queue in range(QUEUES):
        answer = ask(broker.rocketmq, RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=group,
                     topic=topic, queueId=queue, setZeroIfNotFound="false")  # fmt: skip
        found.append(answer.int64("offset") if answer.code == 0 else -1)
    return found


def consume(name_server: MqNamesrv, group: str, count: int) -> list[bytes]:
    """The bodies that a group is given, until there are ``count``; fewer after two minutes."""
    bodies: list[bytes] = []
    with PushConsumer(group, name_server.rocketmq, config=CONFIG) as consumer:
        consumer.subscribe(TOPIC)

        def take(message: Received) -> None:
            bodies.append(message.body)
            if len(bodies) >= count:
                consumer.stop()

        patience = Timer(2 * SECONDS, consumer.stop)
        patience.start()
        try:
            consumer.run(take)
        finally:
            patience.cancel()
    return bodies


def wait(state: Callable[[], object], *daemons: MqBroker) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not state():
        logs = "\n".join(each.log()[-3000:] for each in daemons)
        assert time.monotonic() < end, f"it did not come to that\n{logs}"
        time.sleep(0.02)

"""Producers that go on while what they feed is killed: each number is published once, never again.

A number whose publish failed may be stored or not; one that was acknowledged is.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

from penstock.log_api.log_client import LogClient
from penstock.net.http.client.once import HttpError, request
from penstock.nsq.protocol import encode
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.testing.daemons import MqBroker
from penstock.testing.ledger import Ledger, make_body
from tools.loads.rocketmq_client import Connection

from .node import Node

BATCH_MAX: Final = 200
REST_S_MAX: Final = 0.3
RETRY_S: Final = 0.05
SECONDS_MAX: Final = 60.0
QUEUES: Final = 2


class Feed:
    """A producer and its ledger."""

    def __init__(self, rng: random.Random) -> None:
        self.ledger = Ledger()
        self._rng = rng

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            numbers = self.ledger.attempt(self._rng.randint(1, BATCH_MAX))
            bodies = [make_body(number, self._rng.randint(16, 400)) for number in numbers]
            if await self._publish(bodies):
                self.ledger.acknowledge(numbers)
                await asyncio.sleep(self._rng.uniform(0, REST_S_MAX))
            else:
                await asyncio.sleep(RETRY_S)

    async def _publish(self, bodies: list[bytes]) -> bool:
        """True if they were acknowledged."""
        raise NotImplementedError

    async def stored(self) -> int:
        """The number of messages in the topic."""
        raise NotImplementedError


class NsqFeed(Feed):
    """Publishes to a topic of a node by ``/mpub``."""

    def __init__(self, node: Node, topic: str, rng: random.Random) -> None:
        super().__init__(rng)
        self._node = node
        self._topic = topic

    async def _publish(self, bodies: list[bytes]) -> bool:
        url = f"http://{self._node.http}/mpub?topic={self._topic}&binary=true"
        with suppress(HttpError):
            answer = await request("POST", url, SECONDS_MAX, body=encode.multi_body(bodies))
            return answer.status == 200
        return False

    async def stored(self) -> int:
        return await asyncio.to_thread(stored, self._node, self._topic)


class RocketmqFeed(Feed):
    """Sends batches to the queues of a topic."""

    def __init__(self, broker: MqBroker, topic: str, rng: random.Random) -> None:
        super().__init__(rng)
        self._broker = broker
        self._topic = topic
        self._connection: Connection | None = None

    async def _publish(self, bodies: list[bytes]) -> bool:
        try:
            if self._connection is None:
                self._connection = await Connection.open(self._broker.port)
            batch = [BatchedMessage(body) for body in bodies]
            await self._connection.send_batch(self._topic, self._rng.randrange(QUEUES), batch)
        except (OSError, TimeoutError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return False
        return True

    async def stored(self) -> int:
        connection = await Connection.open(self._broker.port)
        bounds = [await connection.bounds(self._topic, queue) for queue in range(QUEUES)]
        connection.close()
        return sum(end for _, end in bounds)


def stored(node: Node, topic: str) -> int:
    """The number of messages that were ever in this topic of a node."""
    with LogClient(node.http) as log:
        return sum(queue.end for queue in log.offsets(topic).queues)

"""Messages that are popped at a broker of RocketMQ which may die at any moment."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any, Final

from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.testing.ledger import Ledger, make_body

from .mqbroker import Broker
from .rocketmq_client import Connection
from .rocketmq_load import until_killed

TOPIC: Final = "kill-popped"
GROUP: Final = "poppers"
DEAD_LETTERS: Final = f"%DLQ%{GROUP}"
QUEUES: Final = 4
BATCH: Final = 20
INVISIBLE_MS: Final = 500
ACKNOWLEDGED_SHARE: Final = 0.6
REST_S_MAX: Final = 0.03
SECONDS_MAX: Final = 120.0


class Load:
    """A producer, and two consumers that acknowledge a part of the messages that they pop."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self.rng = rng
        self.ledger = Ledger()
        self._dead = 0  # queue offset of the next dead letter

    async def make_topic(self) -> None:
        connection = await Connection.open(self.broker.port)
        await connection.make_topic(TOPIC, QUEUES)
        connection.close()

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        """The producer and the consumers; each ends when the broker does."""
        return [until_killed(client()) for client in (self._produce, self._consume, self._consume)]

    async def _produce(self) -> None:
        connection = await Connection.open(self.broker.port)
        try:
            while True:
                numbers = self.ledger.attempt(BATCH)
                batch = [
                    BatchedMessage(make_body(number, 100), properties.join({"KEYS": f"p{number}"}))
                    for number in numbers
                ]
                await connection.send_batch(TOPIC, self.rng.randrange(QUEUES), batch)
                self.ledger.acknowledge(numbers)
                await asyncio.sleep(self.rng.uniform(0, REST_S_MAX))
        finally:
            connection.close()

    async def _consume(self) -> None:
        connection = await Connection.open(self.broker.port)
        try:
            while True:
                for each in await connection.pop(TOPIC, GROUP, INVISIBLE_MS, poll_ms=200):
                    if self.rng.random() < ACKNOWLEDGED_SHARE:
                        self.ledger.see(each.body)
                        await connection.ack(GROUP, each)
        finally:
            connection.close()

    async def drain(self) -> None:
        """Pop and acknowledge until all messages are found, or none has come for too long.

        Those that were popped 16 times without an acknowledgement are among the dead letters.
        """
        connection = await Connection.open(self.broker.port)
        await connection.make_topic(DEAD_LETTERS, 1)
        deadline = time.monotonic() + SECONDS_MAX
        await self._see_dead_letters(connection)
        while self.ledger.outstanding() and time.monotonic() < deadline:
            for each in await connection.pop(TOPIC, GROUP, 60_000, poll_ms=500):
                self.ledger.see(each.body)
                await connection.ack(GROUP, each)
                deadline = time.monotonic() + SECONDS_MAX
            await self._see_dead_letters(connection)
        connection.close()

    async def _see_dead_letters(self, connection: Connection) -> None:
        while found := await connection.pull(DEAD_LETTERS, 0, self._dead, GROUP):
            self._dead += len(found)
            for each in found:
                self.ledger.see(each.body)

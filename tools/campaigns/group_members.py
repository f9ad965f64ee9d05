"""Producers and consumers of RocketMQ's client in this process, and what each of them has seen."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from penstock.rocketmq.client import (
    ClientError,
    Config,
    LitePullConsumer,
    Message,
    PopConsumer,
    Producer,
    PushConsumer,
    Received,
    RetryLater,
    TransactionState,
)
from penstock.rocketmq.client.errors import NotSupported

from .java_member import JavaMember

QUEUES: Final = 4
PAUSE_S: Final = 0.1
"""Before something that has failed is tried again."""


class Feed:
    """A producer that sends numbers from 0 on, each until it is acknowledged and before the next.

    Number n goes to queue ``n % QUEUES``, so that each queue has its numbers in ascending order.
    """

    def __init__(self, address: str, config: Config, topic: str, pace_s: float) -> None:
        self._producer = Producer(f"feed-{topic}", address, config=config)
        self._topic = topic
        self._pace_s = pace_s
        self.count = 0
        """All numbers below it are acknowledged."""

    async def run(self) -> None:
        """Send until cancelled."""
        async with self._producer:
            while True:
                await self._send(self.count)
                self.count += 1
                await asyncio.sleep(self._pace_s)

    async def _send(self, number: int) -> None:
        message = Message(self._topic, b"%d" % number)
        while True:
            with suppress(ClientError):
                await self._producer.send(message, queue=lambda every: every[number % len(every)])
                return
            await asyncio.sleep(PAUSE_S)


class Member:
    """One push consumer at work."""

    def __init__(self, consumer: PushConsumer, topic: str, handle: Callable[..., object]) -> None:
        self.consumer = consumer
        self.topic = topic
        consumer.subscribe(topic)
        self._running = asyncio.create_task(consumer.run(handle, concurrency=8))

    @property
    def queues(self) -> list[int]:
        """The queues of the topic that it holds."""
        return [each.queue.queueId for each in self.consumer.queues if each.topic == self.topic]

    async def leave(self) -> None:
        await self.consumer.close()
        await self._running

    async def die(self) -> None:
        """End without a word to anybody."""
        self.consumer._hub.close()
        self._running.cancel()
        await asyncio.wait([self._running])


class Group:
    """A group of push consumers, and what its members have handled.

    Handlers are slow at times. Some numbers fail at first, and come again; those of ``is_poison``
    fail always.
    """

    retries: Final = 2

    def __init__(
        self, name: str, topic: str, address: str, config: Config, rng: random.Random, *,
        orderly: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.topic = topic
        self.members: list[Member] = []
        self.handled = Counter[int]()
        self.faults: list[str] = []
        self._orderly = orderly
        self._address = address
        self._config = config if orderly else replace(config, max_reconsume_times=self.retries)
        self._rng = rng
        self._begun: set[int] = set()
        self._newest = [-1] * QUEUES
        self._busy = Counter[int]()
        self.java: JavaMember | None = None
        """A member that is Java's client."""

    def add_java(self, jars: Path, home: Path) -> None:
        """Have one, of this client, from the next ``join_java`` on."""
        self.java = JavaMember(jars, home, lambda number: self.handled.update((number,)))

    async def join_java(self) -> None:
        if self.java is not None:
            await self.java.start(self._address, self.name, self.topic, self.retries)

    async def lose_java(self) -> None:
        if self.java is not None:
            await self.java.die()

    def is_poison(self, number: int) -> bool:
        """True for numbers that end as dead letters; in order there are none."""
        return not self._orderly and number % 97 == 13

    def join(self) -> None:
        consumer = PushConsumer(
            self.name, self._address, config=self._config, orderly=self._orderly
        )
        self.members.append(Member(consumer, self.topic, self._handle))

    async def lose(self, how: Callable[[Member], Coroutine[Any, Any, None]]) -> None:
        """The oldest member goes, one way or another."""
        await how(self.members.pop(0))

    def __str__(self) -> str:
        held = [queue for member in self.members for queue in member.consumer.queues]
        java = f", and Java's member {self.java.queues}" if self.java else ""
        return f"group {self.name}, which has {held}{java}"

    def is_shared(self) -> bool:
        """True when each queue is one member's."""
        held = [queue for member in self.members for queue in member.queues]
        return sorted(held + (self.java.queues if self.java else [])) == list(range(QUEUES))

    def missing(self, count: int) -> list[int]:
        """Some of the numbers below that were not handled, but for the poisonous."""
        found = (n for n in range(count) if n not in self.handled and not self.is_poison(n))
        return list(islice(found, 10))

    async def _handle(self, message: Received) -> None:
        number = int(message.body)
        is_new = number not in self._begun
        self._begun.add(number)
        if self._orderly:
            self._check_order(number, is_new=is_new)
        self._busy[number % QUEUES] += 1
        try:
            await asyncio.sleep(0.2 if self._rng.random() < 0.01 else 0.0)
        finally:
            self._busy[number % QUEUES] -= 1
        if self.is_poison(number) or (is_new and number % 23 == 5):
            raise RetryLater(0 if self._orderly else 1)
        self.handled[number] += 1

    def _check_order(self, number: int, *, is_new: bool) -> None:
        queue = number % QUEUES
        if self._busy[queue]:
            self.faults.append(f"{self.name}: {number} is handled beside another of its queue")
        if is_new and number < self._newest[queue]:
            self.faults.append(f"{self.name}: {number} comes first after {self._newest[queue]}")
        self._newest[queue] = max(self._newest[queue], number)

    async def close(self) -> None:
        for member in self.members:
            await member.leave()


class Looker:
    """A consumer of another kind, alone in its group: all numbers that it has seen."""

    def __init__(self, topic: str, address: str, config: Config) -> None:
        self.topic = topic
        self.seen: set[int] = set()
        self.is_supported = True
        self._address = address
        self._config = config

    def __str__(self) -> str:
        return f"a consumer of {self.topic}"

    def missing(self, count: int) -> list[int]:
        """Some of the numbers below that were not seen."""
        if not self.is_supported:
            return []
        return list(islice((number for number in range(count) if number not in self.seen), 10))

    async def broadcast(self, folder: Path) -> None:
        """Consume as the member of a broadcasting group."""
        config = replace(
            self._config, message_model="BROADCASTING", instance_name="one",
            offset_store_path=str(folder),
        )  # fmt: skip
        async with PushConsumer("broadcast", self._address, config=config) as consumer:
            consumer.subscribe(self.topic)
            await consumer.run(lambda message: self.seen.add(int(message.body)))

    async def poll(self, group: str = "polling") -> None:
        """Consume by lite pull."""
        async with LitePullConsumer(group, self._address, config=self._config) as consumer:
            consumer.subscribe(self.topic)
            while True:
                self.seen.update(int(each.body) for each in await consumer.poll())

    async def pop(self) -> None:
        """Consume by POP, where the broker has it."""
        async with PopConsumer(
            "popping", self.topic, self._address, invisible=5, config=self._config
        ) as consumer:
            while True:
                try:
                    for each in await consumer.receive():
                        await consumer.ack(each)
                        self.seen.add(int(each.body))
                except NotSupported:
                    self.is_supported = False
                    return
                except ClientError:
                    await asyncio.sleep(PAUSE_S)


class Ledger:
    """The decisions of a sender of transactions, kept as a database would, and what arrived."""

    def __init__(self, topic: str, address: str, config: Config, rng: random.Random) -> None:
        self.decided: dict[int, bool] = {}
        """By number: committed, or not."""
        self.seen: set[int] = set()
        self.is_sending = True
        self._topic = topic
        self._address = address
        self._config = config
        self._rng = rng
        self._producer: Producer | None = None
        self._next = 0

    @property
    def committed(self) -> set[int]:
        return {number for number, is_committed in self.decided.items() if is_committed}

    def faults(self) -> list[str]:
        wrong = sorted(number for number in self.seen if not self.decided.get(number))
        return [f"transactions that were not committed arrived: {wrong[:10]}"] if wrong else []

    async def run(self) -> None:
        """Send transactions while ``is_sending``, and tell how they ended until cancelled.

        A producer that died is replaced.
        """
        while True:
            self._producer = Producer(
                "transacting", self._address, config=self._config, on_check=self._look_up
            )
            async with self._producer:
                while not self._producer._hub.is_closed:
                    if self.is_sending:
                        await self._send()
                    await asyncio.sleep(PAUSE_S / 10)

    async def _send(self) -> None:
        number, self._next = self._next, self._next + 1
        assert self._producer is not None
        message = Message(self._topic, b"%d" % number)
        with suppress(ClientError):
            await self._producer.send_in_transaction(message, lambda _: self._execute(number))

    async def _execute(self, number: int) -> TransactionState:
        is_committed = self.decided.setdefault(number, self._rng.random() < 0.5)
        await asyncio.sleep(0)
        if self._rng.random() < 0.2:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

    def _look_up(self, message: Received) -> TransactionState:
        """Decide about what was begun by a producer that has died before it could."""
        is_committed = self.decided.setdefault(int(message.body), False)
        return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK

    def die(self) -> None:
        """End the producer in the middle of whatever it does."""
        if self._producer is not None:
            self._producer._hub.close()

    async def consume(self) -> None:
        async with PushConsumer("transacted", self._address, config=self._config) as consumer:
            consumer.subscribe(self._topic)
            await consumer.run(lambda message: self.seen.add(int(message.body)))

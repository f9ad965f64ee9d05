"""Producers that send in other ways than one by one, and a consumer that has a ledger of each.

A producer notes the numbers that were acknowledged, and these must arrive. One-way messages are
never acknowledged: how many arrive is counted, and those that nobody has sent are faults.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from penstock.rocketmq.client import (
    ClientError,
    Config,
    Message,
    Producer,
    PushConsumer,
    Received,
)

TOPIC, QUESTIONS = "Kinds", "Questions"
TOGETHER: Final = 10
"""Messages of a batch, and of a pipelined burst."""
PAUSE_S: Final = 0.25
REPLY_S: Final = 5.0
PIPELINED, BATCH, DELAYED, ONE_WAY, ANSWERED = KINDS = (
    "pipelined", "batch", "delayed", "one-way", "answered",
)  # fmt: skip


class Sends:
    """A producer of each kind at work, their ledgers, and who consumes and who replies."""

    def __init__(self, address: str, config: Config) -> None:
        self._address = address
        self._config = config
        self.acknowledged: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.seen: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.sent = Counter[str]()
        """How many numbers of a kind were ever sent, acknowledged or not."""
        self.faults: list[str] = []

    @property
    def count(self) -> int:
        """Messages that were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def __str__(self) -> str:
        told = [f"{kind} {len(self.acknowledged[kind])}" for kind in KINDS if kind != ONE_WAY]
        arrived = f"one-way {len(self.seen[ONE_WAY])} of {self.sent[ONE_WAY]} arrived"
        return ", ".join([*told, arrived])

    def feeds(self) -> list[Coroutine[Any, Any, None]]:
        """Those that send until they are cancelled."""
        return [self._pipeline(), self._batch(), self._delay(), self._tell(), self._ask()]

    def readers(self) -> list[Coroutine[Any, Any, None]]:
        """Those that consume until they are cancelled."""
        return [self._consume(), self._reply()]

    def missing(self, kind: str) -> list[int]:
        """Some of the acknowledged numbers that were not seen."""
        return list(islice(self.acknowledged[kind] - self.seen[kind], 10))

    def progress(self) -> dict[str, int]:
        """How far each kind is: acknowledged, or seen where nothing is acknowledged."""
        return {
            kind: len((self.seen if kind == ONE_WAY else self.acknowledged)[kind]) for kind in KINDS
        }

    def _next(self, kind: str, many: int = 1, **more: Any) -> dict[int, Message]:
        """The next messages, by their numbers."""
        first = self.sent[kind]
        self.sent[kind] += many
        topic = QUESTIONS if kind == ANSWERED else TOPIC
        return {
            number: Message(topic, f"{kind} {number}".encode(), **more)
            for number in range(first, first + many)
        }

    # --- producers -------------------------------------------------------------------------------

    async def _pipeline(self) -> None:
        async with self._producer(PIPELINED) as producer:
            while True:
                futures = {}
                with suppress(ClientError):
                    for number, message in self._next(PIPELINED, TOGETHER).items():
                        futures[number] = await producer.send_soon(message)
                outcomes = await asyncio.gather(*futures.values(), return_exceptions=True)
                for number, outcome in zip(futures, outcomes, strict=True):
                    if not isinstance(outcome, BaseException):
                        self.acknowledged[PIPELINED].add(number)
                    elif not isinstance(outcome, ClientError):
                        raise outcome
                await asyncio.sleep(PAUSE_S)

    async def _batch(self) -> None:
        async with self._producer(BATCH) as producer:
            while True:
                messages = self._next(BATCH, TOGETHER)
                with suppress(ClientError):
                    await producer.send_batch(list(messages.values()))
                    self.acknowledged[BATCH].update(messages)
                await asyncio.sleep(PAUSE_S)

    async def _delay(self) -> None:
        async with self._producer(DELAYED) as producer:
            while True:
                ((number, message),) = self._next(DELAYED, delay_level=1).items()
                with suppress(ClientError):
                    await producer.send(message)
                    self.acknowledged[DELAYED].add(number)
                await asyncio.sleep(PAUSE_S)

    async def _tell(self) -> None:
        async with self._producer(ONE_WAY) as producer:
            while True:
                for message in self._next(ONE_WAY).values():
                    with suppress(ClientError):
                        await producer.send_one_way(message)
                await asyncio.sleep(PAUSE_S)

    async def _ask(self) -> None:
        async with self._producer(ANSWERED) as producer:
            while True:
                ((number, message),) = self._next(ANSWERED).items()
                with suppress(ClientError):
                    answer = await producer.request(message, timeout=REPLY_S)
                    if answer.body != b"re: " + message.body:
                        self.faults.append(f"{message.body!r} was answered by {answer.body!r}")
                    self.acknowledged[ANSWERED].add(number)
                await asyncio.sleep(PAUSE_S)

    def _producer(self, kind: str) -> Producer:
        return Producer(f"sends-{kind}", self._address, config=self._config)

    # --- consumers -------------------------------------------------------------------------------

    async def _consume(self) -> None:
        async with PushConsumer("kinds", self._address, config=self._config) as consumer:
            consumer.subscribe(TOPIC)
            await consumer.run(self._see)

    def _see(self, message: Received) -> None:
        kind, number = message.body.decode().split()
        if int(number) >= self.sent[kind]:
            self.faults.append(f"{kind} {number} arrived, which nobody has sent")
        self.seen[kind].add(int(number))

    async def _reply(self) -> None:
        async with (
            Producer("replies", self._address, config=self._config) as producer,
            PushConsumer("answering", self._address, config=self._config) as consumer,
        ):

            async def answer(message: Received) -> None:
                self._see(message)
                with suppress(ClientError):  # who asked may be gone by now
                    await producer.reply(message, b"re: " + message.body)

            consumer.subscribe(QUESTIONS)
            await consumer.run(answer)

"""A mixed load on one nsqd which may die at any moment.

Several producers publish in every way there is, consumers finish a part of it.

Every number taken from the ledger is published once; it counts as acknowledged when its OK was
read. Nothing here retries, so that whatever the ledger says is the broker's doing.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

from penstock.testing.daemons import Daemon
from penstock.testing.ledger import Ledger, make_body, read_body

OK = b"OK"
NOT_COPIED = (b"copies follow", b"not copied within")
"""What refusals say where an OK waits for copies, and a busy machine keeps those from asking."""
BATCH = 50
RDY = 100
DRAIN_RDY = 2500
DEFER_MS_MAX = 400
FINISHED_SHARE = 0.5
REST_S_MAX = 0.005
"""Longest rest of a producer between two batches: the backlog is to stay small."""
SILENCE_S = 1.0
"""After the last acknowledged message was found: how long to wait for messages nobody sent."""
SILENCE_S_MAX = 30.0
"""How long to wait for one that is missing."""
ANSWER_S_MAX = 60.0


class NotCopiedError(Exception):
    """A publish was refused, or given up, for want of a copy; nsqd ends the connection."""


class Connection:
    """A raw NSQ connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._head: tuple[int, int] | None = None

    @classmethod
    async def open(cls, daemon: Daemon) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.tcp_port)
        writer.write(b"  V2")
        return cls(reader, writer)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame that is no heartbeat. Who stops waiting for it may ask for it again."""
        while True:
            if self._head is None:
                self._head = struct.unpack(">ii", await self.reader.readexactly(8))
            size, kind = self._head
            data = await self.reader.readexactly(size - 4)
            self._head = None
            if data != b"_heartbeat_":
                return kind, data

    async def ask(self, command: bytes, body: bytes) -> None:
        """Send a command with a body and wait for its OK; anything else is a failure. Raises
        NotCopiedError.
        """
        self.writer.write(command + struct.pack(">i", len(body)) + body)
        answer = await self.frame()
        if answer[0] == 1 and any(words in answer[1] for words in NOT_COPIED):
            raise NotCopiedError(answer[1])
        assert answer == (0, OK), answer


async def acknowledged(ledger: Ledger, lives: int) -> None:
    """Wait until more messages are than the broker had lives. Nearly always they are: it waits only
    where the machine is so slow that nothing was answered in all of them.
    """
    async with asyncio.timeout(ANSWER_S_MAX):
        while ledger.report().acknowledged <= lives:  # noqa: ASYNC110  # the ledger tells nobody
            await asyncio.sleep(0.01)


class Load:
    """Producers and consumers of one topic and channel, over the life of several daemons."""

    def __init__(
        self, ledger: Ledger, rng: random.Random, topic: str = "kill", batch: int = BATCH
    ) -> None:
        self.ledger = ledger
        self.batch = batch
        self.rng = rng
        self.topic = topic.encode()
        self.numbers_of_ids: dict[bytes, int] | None = None
        """The number that each id came with, if a dictionary is set; it must never change."""
        self._lives = 0

    async def run(self, daemon: Daemon, seconds: float) -> None:
        """Load the daemon, then SIGKILL it under load and let every client notice."""
        async with asyncio.TaskGroup() as group:
            for client in self.clients(daemon):
                group.create_task(client)
            await asyncio.sleep(seconds)
            await self.lived()
            await asyncio.to_thread(daemon.kill)

    def clients(self, daemon: Daemon) -> list[Coroutine[Any, Any, None]]:
        """All producers and consumers; each ends when the daemon does."""
        clients = [self.multi_publish, self.multi_publish, self.publish, self.publish]
        clients += [self.deferred_publish, self.consume, self.consume]
        return [self._until_closed(client(daemon)) for client in clients]

    async def lived(self) -> None:
        """Wait until something was acknowledged in this life."""
        self._lives += 1
        await acknowledged(self.ledger, self._lives)

    async def _until_closed(self, client: Coroutine[Any, Any, None]) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await client

    async def multi_publish(self, daemon: Daemon) -> None:
        """MPUB of bodies of mixed sizes."""
        connection = await Connection.open(daemon)
        try:
            while True:
                numbers = self.ledger.attempt(self.batch)
                await connection.ask(b"MPUB %s\n" % self.topic, self._multi_body(numbers))
                self.ledger.acknowledge(numbers)
                await asyncio.sleep(self.rng.uniform(0, REST_S_MAX))
        finally:
            connection.writer.close()

    def _multi_body(self, numbers: Iterable[int]) -> bytes:
        bodies = [make_body(number, self.rng.randint(16, 400)) for number in numbers]
        parts = [struct.pack(">i", len(body)) + body for body in bodies]
        return struct.pack(">i", len(bodies)) + b"".join(parts)

    async def publish(self, daemon: Daemon) -> None:
        """PUB, one at a time."""
        await self._publish_each(daemon, deferred=False)

    async def deferred_publish(self, daemon: Daemon) -> None:
        """DPUB with a small delay, one at a time."""
        await self._publish_each(daemon, deferred=True)

    async def _publish_each(self, daemon: Daemon, *, deferred: bool) -> None:
        connection = await Connection.open(daemon)
        try:
            while True:
                numbers = self.ledger.attempt()
                command = b"PUB %s\n" % self.topic
                if deferred:
                    command = b"DPUB %s %d\n" % (self.topic, self.rng.randint(0, DEFER_MS_MAX))
                await connection.ask(command, make_body(numbers[0], 100))
                self.ledger.acknowledge(numbers)
        finally:
            connection.writer.close()

    async def consume(self, daemon: Daemon) -> None:
        """Finish about half of what comes, requeue a few, leave the rest in flight."""
        connection = await self._subscribe(daemon, RDY)
        try:
            while True:
                kind, data = await connection.frame()
                if kind != 2:
                    continue
                self._told(data)
                chance = self.rng.random()
                if chance < FINISHED_SHARE:
                    self.ledger.see(data[26:])
                    connection.writer.write(b"FIN %s\n" % data[10:26])
                elif chance < FINISHED_SHARE + 0.4:
                    connection.writer.write(b"REQ %s %d\n" % (data[10:26], self.rng.randint(0, 50)))
        finally:
            connection.writer.close()

    def _told(self, message: bytes) -> None:
        if self.numbers_of_ids is not None:
            number = read_body(message[26:])
            assert number is not None, "a damaged body"
            known = self.numbers_of_ids.setdefault(message[10:26], number)
            assert known == number, f"the id of message {known} was given to {number} as well"

    async def _subscribe(self, daemon: Daemon, rdy: int, suffix: bytes = b"") -> Connection:
        connection = await Connection.open(daemon)
        connection.writer.write(b"SUB %s%s ch\nRDY %d\n" % (self.topic, suffix, rdy))
        return connection

    async def drain(self, daemon: Daemon, suffix: bytes = b"") -> None:
        """Finish all messages, until none comes any more; sooner if none is outstanding.

        With the suffix ``.dead`` it is the topic's dead letters.
        """
        connection = await self._subscribe(daemon, DRAIN_RDY, suffix)
        silent_s = 0.0
        try:
            while silent_s < SILENCE_S_MAX:
                try:
                    async with asyncio.timeout(SILENCE_S):
                        kind, data = await connection.frame()
                except TimeoutError:
                    if self.ledger.outstanding() == 0:
                        return
                    silent_s += SILENCE_S
                    continue
                silent_s = 0.0
                if kind == 2:
                    self._told(data)
                    self.ledger.see(data[26:])
                    connection.writer.write(b"FIN %s\n" % data[10:26])
        finally:
            connection.writer.close()

"""Clients of a pair of nsqds, and all that they were told by either."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from penstock.testing.ledger import make_body, read_body
from tools.loads.load import Connection

from .pair_clients import PairClients
from .pair_story import Side, Story, Told

TOPIC: Final = b"copied"
CHANNEL: Final = b"ch"
BATCH: Final = 30
RDY: Final = 200
DRAINING_RDY: Final = 2500
DEFER_MS_MAX: Final = 300
REST_S: Final = 0.02
FINISHED_SHARE: Final = 0.8
REQUEUED_SHARE: Final = 0.17
REFUSALS: Final = ("E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED", "E_FOLLOWER", "E_FENCED")


class Refused(Exception):
    """A publish that got no OK, but one of these answers."""


class NsqStory(Story):
    """What clients of NSQ were told: places are the ids of messages."""

    def __init__(self, rng: random.Random, *, acked: int) -> None:
        super().__init__(rng, acked=acked)
        self.finished: dict[int, Told] = {}

    def stands(self, epoch: int, message_id: int, body: bytes) -> int | None:
        """The number of a message that a node has under this id; None for one that nobody sent."""
        number = self.number_of(body)
        if number is not None:
            self.take_place(epoch, message_id, number)
        return number

    def delivered(self, side: Side, frame: bytes) -> None:
        """A consumer got a message."""
        number = self.stands(side.epoch, int(frame[10:26], 16), frame[26:])
        told = self.finished.get(-1 if number is None else number)
        if told is not None and told.epoch < side.epoch:
            behind = self.kept[told.epoch] - told.at
            self.seconds_behind = max(self.seconds_behind, behind)
            self.again += 1

    def not_finished(self, side: Side, message_id: int) -> None:
        """A node did not take a FIN."""
        number = self.at_place(side.epoch, message_id)
        self.finished.pop(-1 if number is None else number, None)


class NsqClients(PairClients):
    """Clients of an nsqd."""

    ends = (OSError, asyncio.IncompleteReadError, Refused)

    def __init__(self, story: NsqStory, side: Side) -> None:
        self._story = story
        self._rng = story.rng
        super().__init__(side, (self._multi, self._multi, self._single, self._deferred,
                                self._consume, self._consume))  # fmt: skip

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A new connection to the node."""
        host, _, port = self.side.door.tcp.rpartition(":")
        connection = Connection(*await asyncio.open_connection(host, int(port)))
        try:
            connection.writer.write(b"  V2")
            yield connection
        finally:
            connection.writer.close()

    async def _ask(self, connection: Connection, command: bytes, body: bytes) -> None:
        connection.writer.write(command + struct.pack(">i", len(body)) + body)
        kind, data = await connection.frame()
        if kind == 0:
            assert data == b"OK", data
            return
        if not data.decode().startswith(REFUSALS):
            self._story.fault(f"a publish was answered {data.decode()}")
        raise Refused

    async def _publish(self, connection: Connection, count: int, command: bytes) -> None:
        numbers = self._story.ledger.attempt(count)
        bodies = [make_body(number, self._rng.randint(16, 400)) for number in numbers]
        body = bodies[0]
        if command.startswith(b"MPUB"):
            parts = [struct.pack(">i", len(each)) + each for each in bodies]
            body = struct.pack(">i", count) + b"".join(parts)
        await self._ask(connection, command, body)
        self._story.acknowledged(self.side, numbers)

    async def _multi(self, connection: Connection) -> None:
        while True:
            await self._publish(connection, BATCH, b"MPUB %b\n" % TOPIC)
            await asyncio.sleep(self._rng.uniform(0, REST_S))

    async def _single(self, connection: Connection) -> None:
        while True:
            await self._publish(connection, 1, b"PUB %b\n" % TOPIC)
            await asyncio.sleep(self._rng.uniform(0, REST_S))

    async def _deferred(self, connection: Connection) -> None:
        while True:
            delay = self._rng.randint(0, DEFER_MS_MAX)
            await self._publish(connection, 1, b"DPUB %b %d\n" % (TOPIC, delay))

    async def _consume(self, connection: Connection) -> None:
        await self._take(connection, RDY, self._answer)

    async def _take(
        self, connection: Connection, ready: int, answer: Callable[[Connection, bytes], None]
    ) -> None:
        connection.writer.write(b"SUB %b %b\nRDY %d\n" % (TOPIC, CHANNEL, ready))
        while True:
            kind, data = await connection.frame()
            if kind == 1:
                self._failed(data)
            elif kind == 2:
                self._story.delivered(self.side, data)
                answer(connection, data)

    def _failed(self, error: bytes) -> None:
        """A FIN may come after the message's timeout; any other error ends the connection."""
        if not error.startswith((b"E_FIN_FAILED", b"E_REQ_FAILED")):
            raise Refused
        self._story.not_finished(self.side, int(error.split()[2], 16))

    def _answer(self, connection: Connection, data: bytes) -> None:
        chance = self._rng.random()
        if chance < FINISHED_SHARE:
            self._finish(connection, data)
        elif chance < FINISHED_SHARE + REQUEUED_SHARE:
            connection.writer.write(b"REQ %b %d\n" % (data[10:26], self._rng.randint(0, 50)))

    def _finish(self, connection: Connection, data: bytes) -> None:
        self._story.ledger.see(data[26:])
        number = read_body(data[26:])
        if number is not None:
            self._story.finished.setdefault(number, Told(time.monotonic(), self.side.epoch))
        connection.writer.write(b"FIN %b\n" % data[10:26])

    async def drain(self, owes: Coroutine[Any, Any, None]) -> None:
        """Finish all that comes until ``owes`` is through."""
        async with self.connected() as connection:
            draining = asyncio.create_task(self._take(connection, DRAINING_RDY, self._finish))
            try:
                await owes
            finally:
                draining.cancel()
                await asyncio.gather(draining, return_exceptions=True)

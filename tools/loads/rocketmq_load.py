"""A load on one mqbroker which may die at any moment, and what must be true afterwards.

Producers send in every way there is, each message once. What they were told of a message is
written down: its number, its place in a queue, its id. A consumer follows each queue. After each
kill all that was stored since the last one is read again and held against that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import Serialization
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.testing.ledger import Ledger, make_body, read_body

from .load import acknowledged
from .mqbroker import Broker
from .rocketmq_client import Connection, Sent

TOPICS = {"kill-four": 4, "kill-one": 1}
GROUP = "followers"
BATCH_MAX = 30
PIPELINED = 8
SUSPEND_MS = 500
REST_S_MAX = 0.01
"""Longest rest of a producer between two sends."""
SEARCHES_MAX = 5
SAMPLE = 20
"""So many messages are looked up by id and by key after each kill."""
OFFSET_FLUSH_MS = 100
OFFSET_FLUSH_S_MAX = 30.0
"""Longest wait for a committed offset to reach its file."""
POLL_S = 0.025


class Place(NamedTuple):
    """Where a message is."""

    topic: str
    queue: int
    offset: int


class Load:
    """Producers and consumers over the life of several brokers, and what they know."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self.rng = rng
        self.ledger = Ledger()
        self.keeps_order = True
        """True if requests of one connection are done in turn, unlike in Java's broker."""
        self.ids: dict[Place, str] = {}
        """Of each acknowledged message."""
        self.numbers: dict[Place, int] = {}
        """What a producer or a consumer was told to be there."""
        self.stored: dict[tuple[str, int], list[int]] = {
            (topic, queue): [] for topic, queues in TOPICS.items() for queue in range(queues)
        }
        """The numbers in each queue, by offset, as read after a kill."""
        self.followed = dict.fromkeys(self.stored, 0)
        self.committed = dict.fromkeys(self.stored, 0)
        self.durable = dict.fromkeys(self.stored, 0)
        """Consumer offsets that were in the file when the broker was killed."""
        self._fresh: list[Place] = []
        self._lives = 0

    async def make_topics(self) -> None:
        connection = await Connection.open(self.broker.port)
        for topic, queues in TOPICS.items():
            await connection.make_topic(topic, queues)
        connection.close()

    async def run(self, seconds: float) -> None:
        """Load the broker, kill it under load, and let every client notice."""
        async with asyncio.TaskGroup() as group:
            for client in self.clients():
                group.create_task(client)
            await asyncio.sleep(seconds)
            await self.lived()
            await asyncio.to_thread(self.broker.kill)

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        """All producers and consumers; each ends when the broker does."""
        clients = [self._produce(kind) for kind in (self._single, self._pipelined, self._batch)]
        clients += [self._produce(self._single), *map(self._follow, self.stored)]
        return [until_killed(client) for client in clients]

    async def lived(self) -> None:
        """Wait until something was acknowledged in this life; note the offsets that are durable."""
        self._lives += 1
        await acknowledged(self.ledger, self._lives)
        if self.rng.random() < 0.5:
            await self._offsets_written()
        self.durable = self._offsets_in_file()

    def forget_durable(self) -> None:
        """Drop the noted offsets after a power cut, which they may not have survived."""
        self.durable = dict.fromkeys(self.stored, 0)

    # --- producers -----------------------------------------------------------------------------

    async def _produce(self, send: Any) -> None:
        kind = self.rng.choice(list(Serialization))
        connection = await Connection.open(self.broker.port, kind)
        try:
            while True:
                topic, queue = self.rng.choice(list(self.stored))
                await send(connection, topic, queue)
                await asyncio.sleep(self.rng.uniform(0, REST_S_MAX))
        finally:
            connection.close()

    async def _single(self, connection: Connection, topic: str, queue: int) -> None:
        numbers = self.ledger.attempt()
        sent = await connection.send(topic, queue, self._messages(numbers))
        self._acknowledged(numbers, topic, queue, sent)

    async def _pipelined(self, connection: Connection, topic: str, queue: int) -> None:
        numbers = self.ledger.attempt(PIPELINED)
        sent = await connection.send(topic, queue, self._messages(numbers))
        offsets = [each.queue_offset for each in sent]
        assert not self.keeps_order or offsets == sorted(offsets)
        self._acknowledged(numbers, topic, queue, sent)

    async def _batch(self, connection: Connection, topic: str, queue: int) -> None:
        numbers = self.ledger.attempt(self.rng.randint(2, BATCH_MAX))
        sent = await connection.send_batch(topic, queue, self._messages(numbers))
        self._acknowledged(numbers, topic, queue, sent)

    def _messages(self, numbers: range) -> list[BatchedMessage]:
        return [
            BatchedMessage(
                make_body(number, self.rng.choice((16, 128, self.rng.randint(16, 400)))),
                properties.join({"KEYS": f"k{number} all", "UNIQ_KEY": f"U{number:031}"}),
            )
            for number in numbers
        ]

    def _acknowledged(self, numbers: range, topic: str, queue: int, sent: list[Sent]) -> None:
        self.ledger.acknowledge(numbers)
        for number, (message_id, offset) in zip(numbers, sent, strict=True):
            place = Place(topic, queue, offset)
            assert place not in self.ids, f"{place} was given twice"
            self.ids[place] = message_id
            self._told(place, number)
            self._fresh.append(place)

    def _told(self, place: Place, number: int) -> None:
        assert self.numbers.setdefault(place, number) == number, f"two messages at {place}"

    # --- consumers -----------------------------------------------------------------------------

    async def _follow(self, queue: tuple[str, int]) -> None:
        """Pull what comes, from where the last broker was left, and commit now and then."""
        connection = await Connection.open(self.broker.port)
        try:
            while True:
                offset = self.followed[queue]
                for each in await connection.pull(*queue, offset, GROUP, SUSPEND_MS):
                    self._told(Place(*queue, offset), self._number(each, queue, offset))
                    offset += 1
                self.followed[queue] = offset
                if offset > self.committed[queue] and self.rng.random() < 0.5:
                    await connection.commit(GROUP, *queue, offset)
                    self.committed[queue] = offset
        finally:
            connection.close()

    def _number(self, stored: StoredMessage, queue: tuple[str, int], offset: int) -> int:
        """The number of a message that must be at this place, and whole."""
        assert (stored.topic, stored.queue, stored.queue_offset) == (*queue, offset)
        number = read_body(stored.body)
        assert number is not None, f"a damaged body at {queue}, {offset}"
        assert f"KEYS\x01k{number} all" in stored.properties
        return number

    async def _offsets_written(self) -> None:
        """Wait until the offsets committed so far are in their file."""
        wanted = dict(self.committed)
        for _ in range(int(OFFSET_FLUSH_S_MAX / POLL_S)):
            if all(offset >= wanted[queue] for queue, offset in self._offsets_in_file().items()):
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"committed offsets are not written within {OFFSET_FLUSH_S_MAX:g} s")

    def _offsets_in_file(self) -> dict[tuple[str, int], int]:
        path = self.broker.store / "config" / "consumerOffset.json"
        offsets = fastjson.loads(path.read_bytes())["offsetTable"] if path.exists() else {}
        return {
            (topic, queue): int(offsets.get(f"{topic}@{GROUP}", {}).get(queue, 0))
            for topic, queue in self.stored
        }

    # --- after a kill --------------------------------------------------------------------------

    async def check(self) -> None:
        """Hold what the broker has against what was known before it was killed."""
        connection = await Connection.open(self.broker.port)
        for queue in self.stored:
            await self._check_queue(connection, queue)
        await self._check_lookups(
            connection, self.rng.sample(self._fresh, min(SAMPLE, len(self._fresh)))
        )
        self._fresh.clear()
        connection.close()
        assert self.ledger.outstanding() == 0, self.ledger.lost()

    async def _check_queue(self, connection: Connection, queue: tuple[str, int]) -> None:
        numbers = self.stored[queue]
        low, high = await connection.bounds(*queue)
        assert low == 0
        assert high >= max(len(numbers), self.followed[queue])
        while len(numbers) < high:
            pulled = await connection.pull(*queue, len(numbers), GROUP)
            assert pulled, f"nothing at {queue}, {len(numbers)}, before the end at {high}"
            for each in pulled:
                number = self._number(each, queue, len(numbers))
                self._told(Place(*queue, len(numbers)), number)
                self.ledger.see(each.body)
                numbers.append(number)
        committed = await connection.committed(GROUP, *queue)
        assert self.durable[queue] <= committed <= self.followed[queue]
        self.committed[queue] = committed

    async def _check_lookups(self, connection: Connection, places: list[Place]) -> None:
        """By message id and by both kinds of key each of these is found, and no other."""
        messages = await connection.view(self.ids[place] for place in places)
        for place, each in zip(places, messages, strict=True):
            number = self._number(each, place[:2], place.offset)
            assert number == self.numbers[place]
            for key, unique in ((f"k{number}", False), (f"U{number:031}", True)):
                bodies = await self._found(connection, place.topic, key, unique=unique)
                assert bodies == [each.body], f"{key} at {place} leads to {bodies}"

    async def _found(
        self, connection: Connection, topic: str, key: str, *, unique: bool
    ) -> list[bytes]:
        """The bodies that a key leads to. A search ends after some seconds with what it has found,
        which on a busy machine may be nothing, so it is asked for again.
        """
        for _ in range(SEARCHES_MAX):
            if found := await connection.query(topic, key, unique=unique):
                return [other.body for other in found]
        return []

    async def check_all(self) -> None:
        """Read everything once more, from the start, and look some of it up."""
        connection = await Connection.open(self.broker.port)
        physical: set[int] = set()
        for queue, numbers in self.stored.items():
            offset = 0
            while pulled := await connection.pull(*queue, offset, GROUP):
                for each in pulled:
                    assert self._number(each, queue, offset) == numbers[offset]
                    physical.add(each.physical_offset)
                    offset += 1
            assert offset == len(numbers)
        assert len(physical) == sum(map(len, self.stored.values()))
        places = list(self.ids)
        await self._check_lookups(connection, self.rng.sample(places, min(500, len(places))))
        connection.close()


async def until_killed(client: Coroutine[Any, Any, None]) -> None:
    """Let a client work until the broker is gone."""
    with suppress(ConnectionError):
        await client

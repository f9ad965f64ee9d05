"""Clients of a pair of mqbrokers, and all that they were told by either.

A message whose send was answered SEND_OK must be kept. Every other answer to a send says that the
message is stored where it was sent to, or not at all, and that it may be lost.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import batch_body, message, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.testing.ledger import make_body
from tools.loads.rocketmq_client import Connection, send_fields

from .pair_clients import RETRY_S, PairClients
from .pair_story import Side, Story, Told

TOPIC, DELAYED, HALVES = "copied", "copied-delayed", "copied-halves"
GROUP, PRODUCERS = "copied-group", "copied-producers"
QUEUES: Final = 2
BATCH: Final = 20
DELAY_MS_MAX: Final = 800
SUSPEND_MS: Final = 300
REST_S: Final = 0.02
COMMIT, ROLLBACK = 8, 12
REFUSALS: Final = (
    ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SERVICE_NOT_AVAILABLE,
)  # fmt: skip
Place = tuple[int, int]
"""A queue and an offset in it."""


def is_rolled_back(number: int) -> bool:
    """True if the transaction of this number ends so."""
    return number % 3 == 1


def is_left_open(number: int) -> bool:
    """True if it is committed only when the broker asks."""
    return number % 3 == 2


class BrokerStory(Story):
    """What clients of RocketMQ were told."""

    def __init__(self, rng: random.Random, *, acked: int) -> None:
        super().__init__(rng, acked=acked)
        self.places: dict[int, Place] = {}
        """Where acknowledged messages are, as their sends were told."""
        self.later: dict[int, Told] = {}
        """Acknowledged messages that come to their topics later: delayed, or to be committed."""
        self.checks = 0
        """Questions of brokers about transactions."""
        self._commits: dict[int, list[tuple[Told, int]]] = {}
        self._resumed: set[tuple[int, int]] = set()
        """The epochs and queues in which the group has gone on."""

    def placed(self, side: Side, queue: int, first: int, numbers: range) -> None:
        """A send of some messages was answered SEND_OK."""
        self.acknowledged(side, numbers)
        for offset, number in enumerate(numbers, first):
            self.take_place(side.epoch, (queue, offset), number)
            self.places[number] = queue, offset

    def promised(self, side: Side, number: int) -> None:
        """A send of a delayed message, or of half of a transaction, was answered SEND_OK."""
        self.said_ok(side, (number,))
        self.later[number] = Told(time.monotonic(), side.epoch)

    def found(self, place: Place, body: bytes) -> int | None:
        """The number of a message that is at a place of the primary; None if nobody sent it."""
        number = self.number_of(body)
        if number is not None and self.places.get(number, place) != place:
            self.fault(f"message {number} is at {place}, not at {self.places[number]}")
        return number

    def committed(self, side: Side, queue: int, offset: int) -> None:
        """A node has taken the group's offset."""
        told = Told(time.monotonic(), side.epoch)
        self._commits.setdefault(queue, []).append((told, offset))

    def resumed(self, side: Side, queue: int, offset: int, end: int) -> None:
        """The group goes on at this offset of a queue that ends there."""
        if offset > end:
            self.fault(f"the group's offset {offset} is behind the end {end} of queue {queue}")
        if (side.epoch, queue) in self._resumed:
            return
        self._resumed.add((side.epoch, queue))
        before = max((epoch for epoch in self.kept if epoch < side.epoch), default=0)
        commits = [(told.at, committed) for told, committed in self._commits.get(queue, ())
                   if told.epoch == before and committed > offset]  # fmt: skip
        if commits:
            self.seconds_behind = max(self.seconds_behind, self.kept[before] - commits[0][0])
            self.again += commits[-1][1] - offset


class BrokerClients(PairClients):
    """Clients of an mqbroker."""

    def __init__(self, story: BrokerStory, side: Side, *, are_sending: bool = True) -> None:
        self._story = story
        self._rng = story.rng
        works: list[Any] = [self._batch, self._single, self._delayed] * are_sending
        works.append(self._transactions if are_sending else self._only_checks)
        super().__init__(side, [*works, *map(self._consumer, range(QUEUES))])

    async def drain(self, owes: Coroutine[Any, Any, None]) -> None:
        """Consume, and answer checks, until ``owes`` is through."""
        try:
            await owes
        finally:
            await self.stop()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A new connection to the node, which answers its checks of transactions."""
        host, _, port = self.side.door.tcp.rpartition(":")
        connection = await Connection.open(int(port), host=host)
        connection.asked = partial(self._answer_check, connection)
        try:
            yield connection
        finally:
            connection.close()

    # --- producers -------------------------------------------------------------------------------

    def _is_ok(self, answer: Command) -> bool:
        if answer.code == 0:
            return True
        if answer.code not in REFUSALS:
            self._story.fault(f"a send was answered {answer.code}, {answer.remark}")
        return False

    async def _single(self, connection: Connection) -> None:
        while True:
            numbers = self._story.ledger.attempt()
            [body] = self._bodies(numbers)
            queue = self._rng.randrange(QUEUES)
            answer = await _send(connection, TOPIC, queue, body)
            if self._is_ok(answer):
                self._story.placed(self.side, queue, answer.int64("queueOffset"), numbers)
            await self._rest()

    async def _batch(self, connection: Connection) -> None:
        while True:
            numbers = self._story.ledger.attempt(BATCH)
            messages = [BatchedMessage(body, "") for body in self._bodies(numbers)]
            queue = self._rng.randrange(QUEUES)
            fields = send_fields(TOPIC, queue, "") | {"m": "true"}
            answer = await connection.ask(RequestCode.SEND_BATCH_MESSAGE, fields,
                                          batch_body.encode(messages))  # fmt: skip
            if self._is_ok(answer):
                self._story.placed(self.side, queue, answer.int64("queueOffset"), numbers)
            await self._rest()

    async def _delayed(self, connection: Connection) -> None:
        while True:
            [number] = self._story.ledger.attempt()
            delay = {"TIMER_DELAY_MS": str(self._rng.randrange(DELAY_MS_MAX))}
            how = properties.join(self._rng.choice((delay, {"DELAY": "1"})))
            [body] = self._bodies((number,))
            if self._is_ok(await _send(connection, DELAYED, number % QUEUES, body, how)):
                self._story.promised(self.side, number)
            await self._rest()

    async def _transactions(self, connection: Connection) -> None:
        await _introduce(connection)
        half = properties.join({"TRAN_MSG": "true", "PGROUP": PRODUCERS})
        while True:
            [number] = self._story.ledger.attempt()
            [body] = self._bodies((number,))
            answer = await _send(connection, HALVES, number % QUEUES, body, half)
            if self._is_ok(answer) and not is_rolled_back(number):
                self._story.promised(self.side, number)
            if answer.code == 0 and not is_left_open(number):
                physical = int(answer.text("msgId")[16:], 16)
                fields = _ending(answer.text("queueOffset"), physical, number)
                await connection.ask(RequestCode.END_TRANSACTION, fields)
            await self._rest()

    async def _only_checks(self, connection: Connection) -> None:
        """Be there for those that ask how transactions have ended."""
        while True:
            await _introduce(connection)
            await asyncio.sleep(RETRY_S)

    def _answer_check(self, connection: Connection, check: Command) -> None:
        """Say how a transaction ends, as its producer has or would have said."""
        if check.code != RequestCode.CHECK_TRANSACTION_STATE or check.ext is None:
            return
        self._story.checks += 1
        half, _ = message.decode(check.body)
        number = self._story.number_of(half.body)
        if number is not None:
            at, physical = check.ext["tranStateTableOffset"], check.ext["commitLogOffset"]
            connection.tell(RequestCode.END_TRANSACTION, _ending(at, int(physical), number))

    def _bodies(self, numbers: Iterable[int]) -> list[bytes]:
        return [make_body(number, self._rng.randint(16, 400)) for number in numbers]

    async def _rest(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, REST_S))

    # --- the group -------------------------------------------------------------------------------

    def _consumer(self, queue: int) -> Any:
        async def consume(connection: Connection) -> None:
            offset = await connection.committed(GROUP, TOPIC, queue)
            _, end = await connection.bounds(TOPIC, queue)
            self._story.resumed(self.side, queue, offset, end)
            while True:
                pulled = await connection.pull(TOPIC, queue, offset, GROUP, SUSPEND_MS)
                for each in pulled:
                    self._story.number_of(each.body)
                    self._story.ledger.see(each.body)
                offset += len(pulled)
                if pulled:
                    await connection.commit(GROUP, TOPIC, queue, offset)
                    self._story.committed(self.side, queue, offset)

        return consume


async def _send(
    connection: Connection, topic: str, queue: int, body: bytes, how: str = ""
) -> Command:
    fields = send_fields(topic, queue, how) | {"a": PRODUCERS}
    return await connection.ask(RequestCode.SEND_MESSAGE_V2, fields, body)


async def _introduce(connection: Connection) -> None:
    """Say that this is a producer of transactions."""
    beat = {"clientID": "copied", "producerDataSet": [{"groupName": PRODUCERS}]}
    await connection.ask(RequestCode.HEART_BEAT, {}, json.dumps(beat).encode())


def _ending(queue_offset: str, physical: int, number: int) -> dict[str, Any]:
    outcome = ROLLBACK if is_rolled_back(number) else COMMIT
    return {"producerGroup": PRODUCERS, "tranStateTableOffset": queue_offset,
            "commitLogOffset": physical, "commitOrRollback": outcome, "msgId": "x"}  # fmt: skip

"""Checks of open transactions: the broker asks a producer of their group (RocketMQ spec 4.7).

A half that is old enough is stored once more, with the count of its checks, and the producer is
told the offsets of the copy. So the queue's start moves on although its transactions stay open. One
that was checked too often, or is older than the broker keeps messages, is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.errors import PenstockError, StorageError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays.release import real_topic
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.store.waiting_time import FUTURE_MS, WaitingTime
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import QUEUE, copy_of, messages, root_of
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.broker.transactions.ending import Transactions
    from penstock.rocketmq.remoting import Connection

INTERVAL_S_MIN: Final = 0.1
SLICE: Final = 64
IMMUNE_WINDOW: Final = 10_000
"""A half that may not be checked yet is stored again when it holds up this many behind it."""
_HOUR_MS: Final = 3600 * 1000

logger = logging.getLogger("penstock.mqbroker")


class _Copy(NamedTuple):
    """A half that is to be stored again, and who is to be asked about it, if anybody."""

    half: StoredMessage
    draft: Draft
    peer: Connection | None


class TransactionChecks:
    """The service that asks."""

    def __init__(
        self,
        settings: BrokerSettings,
        clients: Clients[Connection],
        store: MessageStore,
        transactions: Transactions,
        acl: Acl | None,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._store = store
        self._transactions = transactions
        self._acl = acl
        self._task: asyncio.Task[None] | None = None
        self._turns = count()
        self._time = WaitingTime(store, clock, names.HALF_TOPIC)

    def start(self) -> None:
        self._task = spawn(self._run(), "transaction checks")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        await self._transactions.ready.wait()
        while True:
            interval_s = self._settings.transaction_check_interval / 1000
            await asyncio.sleep(max(INTERVAL_S_MIN, interval_s))
            try:
                await self.check()
            except PenstockError as error:
                logger.error("checking transactions failed, trying again - %s", error)
            except Exception:  # without this clockwork no transaction would ever be checked
                logger.exception("checking transactions failed, trying again")

    async def check(self) -> None:
        """Look at every half that was there when this began. Raises StorageError."""
        transactions = self._transactions
        low, end = self._store.bounds(names.HALF_TOPIC, QUEUE)
        # What retention took and what is damaged can never be ended, and would hold the window.
        for lost in range(transactions.book.first, low):
            transactions.book.lose(lost)
        transactions.advance()
        copies: list[_Copy] = []
        expected = max(low, transactions.book.first)
        async for half in messages(self._store, names.HALF_TOPIC, QUEUE, expected, end):
            for lost in range(expected, half.queue_offset):
                transactions.book.lose(lost)
            expected = half.queue_offset + 1
            if not transactions.book.is_open(half.queue_offset):
                continue
            if transactions.is_under_way(root_of(half)):
                continue
            if not await self._look_at(half, copies):
                break
            if len(copies) >= SLICE:
                await self._store_all(copies)
                copies = []
        await self._store_all(copies)
        transactions.advance()

    async def _look_at(self, half: StoredMessage, copies: list[_Copy]) -> bool:
        """Check, delay or give up an open half; False when those behind it are too young too."""
        settings = self._settings
        times = _number(half, properties.CHECK_TIMES) or 0
        too_old = self._time.age_ms(half, half.store_ms) > settings.file_reserved_time * _HOUR_MS
        immunity_s = _number(half, properties.CHECK_IMMUNITY)
        immunity_ms = settings.transaction_time_out if immunity_s is None else immunity_s * 1000
        waited_ms = self._time.age_ms(half, _since_ms(half))
        # Java checks a half after transactionTimeOut, or the time that its message asks for.
        if not times and not too_old and -FUTURE_MS <= waited_ms < immunity_ms:
            if immunity_s is not None and self._transactions.window > IMMUNE_WINDOW:
                copies.append(_Copy(half, copy_of(half, 0), None))
            # Halves without an immunity become due in their order, so those behind are too young as
            # well. One with an immunity says nothing about them.
            return immunity_s is not None
        # RocketMQ spec 4.7, step 3: it moves to TRANS_CHECK_MAX_TIME_TOPIC then.
        if times >= settings.transaction_check_max or too_old:
            await self._give_up(half, times)
            return True
        peer, all_are_congested = self._producer(half)
        if not all_are_congested:
            # Java stores the half again with each check, so 39 names the copy's offsets.
            copies.append(_Copy(half, copy_of(half, times + 1), peer))
        return True

    def _producer(self, half: StoredMessage) -> tuple[Connection | None, bool]:
        """The next producer to ask, in turn; the flag is True if there are only congested ones.

        It is shown the message, so access rules must allow it to publish to the topic.
        """
        group = properties.value_of(half.properties, properties.PRODUCER_GROUP) or ""
        members = list(self._clients.producers.get(group, {}).values())
        acl = self._acl
        if acl is not None:
            topic = real_topic(half)
            members = [m for m in members if acl.may_publish(m.address, m.access_key, topic)]
        peers = [member.peer for member in members]
        ready = [peer for peer in peers if not peer.is_congested]
        if not ready:
            return None, bool(peers)
        return ready[next(self._turns) % len(ready)], False

    async def _give_up(self, half: StoredMessage, times: int) -> None:
        logger.error(
            "a transaction was checked %d times and is given up: its message %s goes to %s",
            times,
            half.offset_id,
            names.GIVEN_UP_HALF_TOPIC,
        )
        try:
            await self._transactions.end(half, Outcome.GIVE_UP)
        except StorageError:
            raise
        except PenstockError as error:  # its producer was quicker
            logger.info("%s", error)

    async def _store_all(self, copies: Sequence[_Copy]) -> None:
        """Store the copies of what is still open, and ask. Raises StorageError."""
        transactions = self._transactions
        # Once more, as producers have ended some of them while the others were looked at.
        wanted = {
            root: copy
            for root, copy in ((root_of(each.half), each) for each in copies)
            if transactions.book.is_open(copy.half.queue_offset)
            and not transactions.is_under_way(root)
        }
        if not wanted:
            return
        # An end that came now would be for the old offsets, which the copies are about to replace.
        with transactions.holding(wanted):
            places = await self._store.append_all([copy.draft for copy in wanted.values()])
            for root, placed in zip(wanted, places, strict=True):
                transactions.book.copied(root, placed.queue_offset)
        for copy, placed in zip(wanted.values(), places, strict=True):
            # After the copies are stored: the offsets that 39 names are valid when it arrives.
            if copy.peer is not None:
                _ask(copy.peer, copy, placed)


def _ask(peer: Connection, copy: _Copy, placed: Placed) -> None:
    """Have a producer say how a transaction ends; it answers with END_TRANSACTION."""
    found = properties.parse(copy.draft.properties)
    message = replace(
        copy.half,
        topic=found.get(properties.REAL_TOPIC, ""),
        queue=int(found.get(properties.REAL_QUEUE, "0")),
        properties=copy.draft.properties,
        queue_offset=placed.queue_offset,
        physical_offset=placed.physical_offset,
        store_ms=placed.store_ms,
    )
    ext = {
        "tranStateTableOffset": str(placed.queue_offset),
        "commitLogOffset": str(placed.physical_offset),
        "offsetMsgId": placed.message_id,
    }
    unique = found.get(properties.UNIQUE_KEY)
    if unique:
        ext["msgId"] = ext["transactionId"] = unique
    peer.tell(RequestCode.CHECK_TRANSACTION_STATE, ext, encode(message))


def _since_ms(half: StoredMessage) -> int:
    """Since when a transaction waits. Clocks of producers may be wrong, so they count only for
    copies that were stored while nobody might be asked yet.
    """
    is_first = root_of(half) == half.queue_offset
    return half.store_ms if is_first else min(half.born_ms, half.store_ms)


def _number(half: StoredMessage, name: str) -> int | None:
    """A property that is a whole number; None when it is missing, or is not one."""
    return properties.number(properties.value_of(half.properties, name))

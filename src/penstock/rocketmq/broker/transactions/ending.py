"""Transactions: a message that waits as a half message until its producer commits it or rolls it
back (RocketMQ spec 4.7). If the producer does neither, ``checks`` asks.

- An outcome counts from the moment its op message is stored. It is stored first: only then a
  committed message goes to its topic. The first outcome wins; asking for it once more succeeds and
  changes nothing, asking for the opposite is refused. So no crash leads to both.
- A committed message names the half that it was made of. On start, every commit recorded in the op
  topic and not known to be delivered is checked; a message missing from its topic is put there.
  So no crash loses a message, and one is duplicated only if it cannot be found.
- All copies of a half, made by checks, are one transaction: they name the queue offset of the first
  one. The producer may end it by the offsets of any of them.

How far the half and op topics are settled is kept as offsets of the group CID_RMQ_SYS_TRANS; a
start reads them from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import PenstockError, StorageError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions import recovery
from penstock.rocketmq.broker.transactions.book import (
    WINDOW_MAX,
    Decision,
    Outcome,
    TransactionBook,
)
from penstock.rocketmq.broker.transactions.half_messages import QUEUE, Op, as_half, final, root_of
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.messages.message import StoredMessage

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore

RETRY_S: Final = 1.0
_ENDED: Final = {
    Outcome.COMMIT: "The transaction has been committed already",
    Outcome.ROLLBACK: "The transaction has been rolled back already",
}

logger = logging.getLogger("penstock.mqbroker")


class Transactions:
    """All transactions of a broker."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        publisher: Publisher,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self.book = TransactionBook(recovery.settled(store, offsets, names.HALF_TOPIC))
        self.ready = asyncio.Event()
        """Set when the book says what the topics say; until then requests wait."""
        self._acting: dict[int, asyncio.Event] = {}
        self._owed: dict[int, None] = {}
        self._owes = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), "transactions")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    @property
    def window(self) -> int:
        """The number of halves that are open, or stand behind one that is."""
        return self._store.bounds(names.HALF_TOPIC, QUEUE)[1] - self.book.first

    def half(self, draft: Draft) -> Draft:
        """The half message of a transaction that begins. Raises RefusedError."""
        if self.window >= WINDOW_MAX:
            remark = f"{WINDOW_MAX} transactions are open, start flow control for a while"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, remark)
        return as_half(draft)

    def deleted(self, topic: str) -> None:
        """Forget all transactions if the half topic itself is gone."""
        if topic == names.HALF_TOPIC:
            self.book = TransactionBook(0)
            self._owed = {}

    def is_under_way(self, root: int) -> bool:
        """True if somebody is about to end this transaction."""
        return root in self._acting

    @contextmanager
    def holding(self, roots: Collection[int]) -> Iterator[None]:
        """Nobody ends these transactions meanwhile; none of them may be under way."""
        held = asyncio.Event()
        self._acting.update(dict.fromkeys(roots, held))
        try:
            yield
        finally:
            for root in roots:
                del self._acting[root]
            held.set()

    # --- ending --------------------------------------------------------------------------------

    async def end(self, half: StoredMessage, outcome: Outcome) -> None:
        """End a transaction. Raises RefusedError when it has ended otherwise, StorageError."""
        root = root_of(half)
        # A loop, as another request for it may begin between the wake and our turn.
        while (under_way := self._acting.get(root)) is not None:
            await under_way.wait()
        with self.holding((root,)):
            await self._end(root, half, outcome)

    async def _end(self, root: int, half: StoredMessage, outcome: Outcome) -> None:
        known, decision = self.book.outcome(root), self.book.decision(root)
        if known in _ENDED and known is not outcome:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, _ENDED[known])
        if known is None and self.book.is_forgotten(root):
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "The transaction has ended already")
        # A repetition, which is usual: producers get no answer to a one-way 37, and answer each
        # check.
        if known is outcome and (decision is None or decision.done):
            return
        # It may be refused: before anything is recorded.
        # A delay that is too long, say: the producer reads the refusal, and may roll back.
        draft = final(self._topics, self._publisher, half, outcome)
        if decision is None or decision.outcome is not outcome:
            decision = Decision(outcome, half.queue_offset)
        await self._carry_out(root, decision, draft)

    async def _carry_out(self, root: int, decision: Decision, draft: Draft | None) -> None:
        # Until all is done: ``_run`` goes on with it should this call fail in the middle.
        self._owed[root] = None
        try:
            # The outcome first, the message second, where Java does it the other way round
            # (RocketMQ spec 4.7): a crash between them leaves an op whose message is looked for at
            # the start, not a message whose transaction is checked once more.
            if decision.op < 0:
                await self._record(root, decision)
            if draft is not None:
                await self._publisher.publish_one(draft)
        except BaseException:
            # Cancelled, too: whoever asked is gone, but what is recorded has to be carried out.
            self._owes.set()
            raise
        self._owed.pop(root, None)
        self.book.finish(root)
        self.advance()

    async def _record(self, root: int, decision: Decision) -> None:
        """Store the op message: from then on the outcome counts. Raises StorageError."""
        decision.op_min = self._store.bounds(names.OP_HALF_TOPIC, QUEUE)[1]
        before = self.book.decide(root, decision)
        op = Op(root, decision.outcome, decision.half)
        try:
            placed = await self._store.append(op.draft(self._store, wall_ms(self._clock)))
        except StorageError:
            # Only for an error of the log. After a cancellation the op may be stored, and so it
            # counts.
            self.book.undecide(root, before)
            self._owed.pop(root, None)
            raise
        decision.op = placed.queue_offset

    def advance(self) -> None:
        """Move on over what is settled, and keep in mind how far that is."""
        store, offsets, book = self._store, self._offsets, self.book
        if book.advance(store.bounds(names.HALF_TOPIC, QUEUE)[1]):
            group, (_, end) = names.TRANSACTION_GROUP, store.bounds(names.OP_HALF_TOPIC, QUEUE)
            offsets.commit(names.HALF_TOPIC, group, QUEUE, book.first)
            offsets.commit(names.OP_HALF_TOPIC, group, QUEUE, book.first_op(end))
        release.hold(store.topics.get(names.HALF_TOPIC), book.first)  # one queue: offsets agree

    # --- what is left to do --------------------------------------------------------------------

    async def _run(self) -> None:
        await self._recover()
        while True:
            await self._owes.wait()
            self._owes.clear()
            for root in list(self._owed):
                await self._settle(root)
            if self._owed:
                self._owes.set()
            await asyncio.sleep(RETRY_S)

    async def _recover(self) -> None:
        first = self.book.first
        while not self.ready.is_set():
            try:
                await recovery.recover(
                    self._topics, self._offsets, self._store, self._publisher, self.book
                )
                self.ready.set()
            except StorageError as error:
                logger.error("cannot read the transactions, trying again - %s", error)
            except Exception:  # without its book no transaction would ever end
                logger.exception("cannot read the transactions, trying again")
            if not self.ready.is_set():
                # A fresh one: the next try would add to what this one has read.
                self.book = TransactionBook(first)
                await asyncio.sleep(RETRY_S)
        self._owed = dict.fromkeys(root for root, _ in self.book.undone())
        if self._owed:
            self._owes.set()
        self.advance()

    async def _settle(self, root: int) -> None:
        """Do what an outcome asks for, after a crash or a failure."""
        decision = self.book.decision(root)
        if decision is None or decision.done:
            self._owed.pop(root, None)
            return
        if self.is_under_way(root):
            return
        try:
            half = self._store.message_at(names.HALF_TOPIC, QUEUE, decision.half)
            if half is not None:
                await self.end(half, decision.outcome)
                return
            logger.error(
                "the message of a transaction is lost, at %d of %s", decision.half, names.HALF_TOPIC
            )
            self.book.finish(root)
            self.advance()
            self._owed.pop(root, None)
        except PenstockError as error:
            logger.error("cannot %s a transaction, trying again - %s", decision.outcome, error)
        except Exception:  # the others have their turn
            logger.exception("cannot %s a transaction, trying again", decision.outcome)

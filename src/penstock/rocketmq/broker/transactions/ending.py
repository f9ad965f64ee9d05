"""Transactions: a message that waits as a half message until its producer commits it or rolls it
back (reference 4.7). If the producer does neither, ``checks`` asks. The rules:

- An outcome counts from the moment its op message is stored. It is stored first: only then a
  committed message goes to its topic. The first outcome wins; asking for it once more succeeds and
  changes nothing, asking for the opposite is refused. So no crash leads to both.
- A committed message tells which half it was made of. A start looks, for each commit that the op
  topic tells of and that is not known to be delivered, whether the message is in its topic; if not,
  it is put there. So no crash loses it, and it is doubled only where it cannot be found.
- All copies of a half, made by checks, are one transaction: they tell the queue offset of the first
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

from penstock.core.errors import PenstockError, StorageError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names, release
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.draft import Draft
from penstock.rocketmq.broker.transactions import recovery
from penstock.rocketmq.broker.transactions.book import WINDOW_MAX, Book, Decision, Outcome
from penstock.rocketmq.broker.transactions.half_messages import QUEUE, Op, as_half, final, root_of
from penstock.rocketmq.protocol import properties
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.message import StoredMessage, SysFlag

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.remoting import Connection

RETRY_S: Final = 1.0
_UNKNOWN: Final = 0
_ENDED: Final = {
    Outcome.COMMIT: "The transaction has been committed already",
    Outcome.ROLLBACK: "The transaction has been rolled back already",
}

_log = logging.getLogger("penstock.mqbroker")


# --- what clients ask -----------------------------------------------------------------------------


@answers(RequestCode.END_TRANSACTION)
async def end_transaction(node: Node, connection: Connection, request: Command) -> Command | None:
    asked = request.int32("commitOrRollback")
    if asked not in (_UNKNOWN, SysFlag.COMMIT, SysFlag.ROLLBACK):
        raise BodyError(f"the field commitOrRollback must be 0, 8 or 12, not {asked}")
    if asked == _UNKNOWN:
        _log.info("%s does not know yet how its transaction ends: %s",
                  connection.address, request.remark or "")  # fmt: skip
        return None
    await node.transactions.ready.wait()
    half = _checked_half(node, request)
    outcome = Outcome.COMMIT if asked == SysFlag.COMMIT else Outcome.ROLLBACK
    await node.transactions.end(half, outcome)
    return request.answer()


def _checked_half(node: Node, request: Command) -> StoredMessage:
    """The half message that a request names. Raises RefusedError when it is another's."""
    group = request.text("producerGroup")
    queue_offset = request.int64("tranStateTableOffset")
    physical = request.int64("commitLogOffset")
    half = node.store.message(physical)
    if half is None or half.topic != names.HALF_TOPIC:
        problem = "Find prepared transaction message failed"
    elif properties.value_of(half.properties, properties.PRODUCER_GROUP) != group:
        problem = "The producer group wrong"
    elif half.queue_offset != queue_offset:
        problem = "The transaction state table offset wrong"
    else:
        return half
    raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)


@answers(RequestCode.RESUME_CHECK_HALF_MESSAGE)
async def resume_check(node: Node, connection: Connection, request: Command) -> Command:
    """A message that was given up becomes a new transaction, which is checked from the start."""
    message_id = request.text("msgId")
    given_up = node.store.message(OffsetId.parse(message_id).offset)
    if given_up is None or given_up.topic != names.GIVEN_UP_HALF_TOPIC:
        remark = f"the message {message_id} is none that was given up"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
    draft = Draft.of(given_up)
    draft.prepared_offset = 0
    found = properties.parse(draft.properties)
    found.pop(properties.PREPARED_QUEUE_OFFSET, None)
    found[properties.CHECK_TIMES] = "0"
    await node.store.append(release.moved(draft, names.HALF_TOPIC, QUEUE, found))
    return request.answer()


# --- the service ----------------------------------------------------------------------------------


class Transactions:
    """All transactions of a broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.book = Book(recovery.settled(node, names.HALF_TOPIC))
        self.ready = asyncio.Event()
        """Set when the book says what the topics say; until then requests wait."""
        self._acting: dict[int, asyncio.Event] = {}
        self._owed: dict[int, None] = {}
        self._owes = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        node.store.deleted.append(self._deleted)

    def start(self) -> None:
        self._task = spawn(self._run(), "transactions")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    @property
    def window(self) -> int:
        """How many halves are open, or stand behind one that is."""
        return self._node.store.bounds(names.HALF_TOPIC, QUEUE)[1] - self.book.first

    def half(self, draft: Draft) -> Draft:
        """The half message of a transaction that begins. Raises RefusedError."""
        if self.window >= WINDOW_MAX:
            remark = f"{WINDOW_MAX} transactions are open, start flow control for a while"
            raise RefusedError(ResponseCode.SYSTEM_BUSY, remark)
        return as_half(draft)

    def _deleted(self, topic: str) -> None:
        if topic == names.HALF_TOPIC:
            self.book = Book(0)
            self._owed = {}

    def is_under_way(self, root: int) -> bool:
        """Whether somebody is about to end this transaction."""
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
        if known is outcome and (decision is None or decision.done):
            return
        draft = final(self._node, half, outcome)  # it may be refused: before anything is recorded
        if decision is None or decision.outcome is not outcome:
            decision = Decision(outcome, half.queue_offset)
        await self._carry_out(root, decision, draft)

    async def _carry_out(self, root: int, decision: Decision, draft: Draft | None) -> None:
        self._owed[root] = None
        try:
            if decision.op < 0:
                await self._record(root, decision)
            if draft is not None:
                await self._node.publish_one(draft)
        except BaseException:
            self._owes.set()
            raise
        self._owed.pop(root, None)
        self.book.finish(root)
        self.advance()

    async def _record(self, root: int, decision: Decision) -> None:
        """Store the op message: from then on the outcome counts. Raises StorageError."""
        before = self.book.decide(root, decision)
        op = Op(root, decision.outcome, decision.half)
        try:
            placed = await self._node.store.append(op.draft(self._node))
        except StorageError:
            self.book.undecide(root, before)
            self._owed.pop(root, None)
            raise
        decision.op = placed.queue_offset

    def advance(self) -> None:
        """Move on over what is settled, and keep in mind how far that is."""
        store, offsets, book = self._node.store, self._node.offsets, self.book
        if book.advance(store.bounds(names.HALF_TOPIC, QUEUE)[1]):
            group, (_, end) = names.TRANSACTION_GROUP, store.bounds(names.OP_HALF_TOPIC, QUEUE)
            offsets.commit(names.HALF_TOPIC, group, QUEUE, book.first)
            offsets.commit(names.OP_HALF_TOPIC, group, QUEUE, book.first_op(end))
        release.hold(self._node, names.HALF_TOPIC, book.first)  # one queue: log offsets agree

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
                await recovery.recover(self._node, self.book)
                self.ready.set()
            except StorageError as error:
                _log.error("cannot read the transactions, trying again - %s", error)
            except Exception:  # without its book no transaction would ever end
                _log.exception("cannot read the transactions, trying again")
            if not self.ready.is_set():
                self.book = Book(first)
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
        half = self._node.store.message_at(names.HALF_TOPIC, QUEUE, decision.half)
        try:
            if half is not None:
                await self.end(half, decision.outcome)
                return
            _log.error("the message of a transaction is lost, at %d of %s",
                       decision.half, names.HALF_TOPIC)  # fmt: skip
            self.book.finish(root)
            self.advance()
            self._owed.pop(root, None)
        except PenstockError as error:
            _log.error("cannot %s a transaction, trying again - %s", decision.outcome, error)
        except Exception:  # the others have their turn
            _log.exception("cannot %s a transaction, trying again", decision.outcome)

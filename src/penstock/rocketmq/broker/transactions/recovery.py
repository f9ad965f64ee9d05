"""Recovery of transactions at a start, from the half and op topics.

The half topic tells which copies belong together, the op topic how transactions ended. Whether a
message that was committed lately is in its topic is looked up there, see ``ending``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.delays.timers import QUEUE as TIMER_QUEUE
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions.book import (
    RECENT_MAX,
    Decision,
    Outcome,
    TransactionBook,
)
from penstock.rocketmq.broker.transactions.half_messages import QUEUE, Op, final, messages, root_of
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage

if TYPE_CHECKING:
    from penstock.rocketmq.broker.state.consumer_offsets import ConsumerOffsets
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore

_CLOCK_BACK_MS: Final = 1000
"""The most that the system's time may go back between an outcome and the message it put."""


def settled(store: MessageStore, offsets: ConsumerOffsets, topic: str) -> int:
    """The offset up to which a topic was settled when that was last written down."""
    low, end = store.bounds(topic, QUEUE)
    known = offsets.query(topic, names.TRANSACTION_GROUP, QUEUE)
    return min(max(low, known or 0), end)


async def recover(
    topics: TopicTable,
    offsets: ConsumerOffsets,
    store: MessageStore,
    publisher: Publisher,
    book: TransactionBook,
) -> None:
    """Complete a book of which only the window's start is known. Raises StorageError."""
    _, end = store.bounds(names.HALF_TOPIC, QUEUE)
    async for half in messages(store, names.HALF_TOPIC, QUEUE, book.first, end):
        root = root_of(half)
        if root != half.queue_offset:
            book.copied(root, half.queue_offset)
    stored_ms = await _read_ops(store, settled(store, offsets, names.OP_HALF_TOPIC), book)
    await _find_done(topics, store, publisher, book, stored_ms)


async def _read_ops(store: MessageStore, start: int, book: TransactionBook) -> dict[int, int]:
    """Take over what ops record, which is settled below ``start``; when those were stored, in ms,
    by root.
    """
    stored_ms = {}
    _, end = store.bounds(names.OP_HALF_TOPIC, QUEUE)
    # From before the window, too: producers may repeat an outcome that was settled long ago.
    recent = max(0, min(start, end - RECENT_MAX))
    async for message in messages(store, names.OP_HALF_TOPIC, QUEUE, recent, end):
        op = Op.parse(store, message)
        if op is None or book.outcome(op.root) not in (None, Outcome.GIVE_UP):
            continue  # the first one counts
        if message.queue_offset < start:
            book.remember(op.root, op.outcome)
            continue
        book.decide(op.root, Decision(op.outcome, op.half, message.queue_offset))
        stored_ms[op.root] = message.store_ms
        if op.outcome is Outcome.ROLLBACK:  # it puts nothing anywhere
            book.finish(op.root)
    return stored_ms


async def _find_done(
    topics: TopicTable,
    store: MessageStore,
    publisher: Publisher,
    book: TransactionBook,
    stored_ms: dict[int, int],
) -> None:
    """Finish the decisions whose messages are where they should be."""
    wanted: dict[tuple[str, int], dict[int, int]] = {}
    for root, decision in list(book.undone()):
        half = store.message_at(names.HALF_TOPIC, QUEUE, decision.half)
        try:
            draft = None if half is None else final(topics, publisher, half, decision.outcome)
        except (RefusedError, BodyError):
            continue  # tried again when it is carried out
        if half is None or draft is None:
            book.finish(root)
            continue
        for place in _places(half, draft):
            wanted.setdefault(place, {})[draft.prepared_offset] = root
    for (topic, queue), roots in wanted.items():
        since_ms = min(stored_ms[root] for root in roots.values()) - _CLOCK_BACK_MS
        start = store.offset_at_time(topic, queue, since_ms)
        _, end = store.bounds(topic, queue)
        async for message in messages(store, topic, queue, start, end):
            found = roots.pop(message.prepared_offset, None)
            known = None if found is None else book.decision(found)
            if found is not None and known is not None and not known.done:
                book.finish(found)
            if not roots:
                break


def _places(half: StoredMessage, draft: Draft) -> list[tuple[str, int]]:
    """The topics and queues in which the message of an outcome may be: one that had an appointment
    may still wait for it, though its time has come since.
    """
    places = [(draft.topic, draft.queue)]
    if properties.value_of(half.properties, properties.TIMER_DELIVER_MS) is not None:
        places.append((names.TIMER_TOPIC, TIMER_QUEUE))
    return list(dict.fromkeys(places))

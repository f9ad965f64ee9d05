"""The messages that transactions are made of: halves, ops, and what an outcome puts where.

The half message is the message itself in the half topic. An op message records an outcome: it has
the tag ``d`` and the queue offset of a half as its body, as upstream's (RocketMQ spec 4.7), and
beside them the outcome and the transaction's root, the queue offset at which its half was stored
first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.delays.publisher import Publisher
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import (
    TRANSACTION_BITS,
    StoredMessage,
    SysFlag,
    decode,
)

if TYPE_CHECKING:
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore

QUEUE: Final = 0
"""All halves and all ops are in the first queue of their topics."""
OP_TAG: Final = "d"
OUTCOME: Final = "TRAN_OUTCOME"
SERIAL: Final = "TRAN_TOPIC_SERIAL"
"""The serial of the half topic, which is another one after that was deleted."""
_SLICE: Final = 128
_SLICE_BYTES: Final = 1024 * 1024

logger = logging.getLogger("penstock.mqbroker")


def as_half(draft: Draft) -> Draft:
    """The half that is stored for a message of a transaction.

    Raises RefusedError when its properties have become too long.
    """
    found = properties.parse(draft.properties)
    # A client's own would name the root of somebody else's transaction.
    found.pop(properties.PREPARED_QUEUE_OFFSET, None)
    release.address(draft, found)
    half = release.moved(draft, names.HALF_TOPIC, QUEUE, found)
    # As in Java: a half is a plain message of its topic (RocketMQ spec 4.7).
    half.sys_flag &= ~TRANSACTION_BITS
    return half


def root_of(half: StoredMessage) -> int:
    """The queue offset at which a transaction's half was stored first."""
    text = properties.value_of(half.properties, properties.PREPARED_QUEUE_OFFSET)
    root = properties.number(text)
    return half.queue_offset if root is None else root


def copy_of(half: StoredMessage, check_times: int) -> Draft:
    """A half as it is stored again, as newest of its transaction."""
    found = properties.parse(half.properties)
    found[properties.PREPARED_QUEUE_OFFSET] = str(root_of(half))
    if check_times:
        found[properties.CHECK_TIMES] = str(check_times)
    draft = Draft.of(half)
    draft.properties = properties.join(found)
    return draft


def final(
    topics: TopicTable, publisher: Publisher, half: StoredMessage, outcome: Outcome
) -> Draft | None:
    """The message, if any, that an outcome stores; it names the half it was made of.

    Raises RefusedError, BodyError when a delay asks for what is not possible.
    """
    # RocketMQ spec 4.7: a rollback stores its op message alone.
    if outcome is Outcome.ROLLBACK:
        return None
    if outcome is Outcome.GIVE_UP:
        draft = Draft.of(half)
        draft.topic, draft.prepared_offset = names.GIVEN_UP_HALF_TOPIC, half.physical_offset
        return draft
    released = release.released(topics, half)
    if released is None:
        return None
    released.sys_flag = released.sys_flag & ~TRANSACTION_BITS | SysFlag.COMMIT
    # RocketMQ spec 3.1, field 14; the start looks for a lost delivery by it (``recovery``).
    released.prepared_offset = half.physical_offset
    return publisher.divert(released)


class Op(NamedTuple):
    """The content of an op message."""

    root: int
    outcome: Outcome
    half: int

    def draft(self, store: MessageStore, now_ms: int) -> Draft:
        found = {
            properties.TAGS: OP_TAG,
            OUTCOME: self.outcome.value,
            properties.PREPARED_QUEUE_OFFSET: str(self.root),
            SERIAL: str(store.serials.of(names.HALF_TOPIC)),
        }
        return Draft(
            names.OP_HALF_TOPIC,
            QUEUE,
            str(self.half).encode(),
            properties.join(found),
            born_ms=now_ms,
            born_host=store.address,
        )

    @classmethod
    def parse(cls, store: MessageStore, message: StoredMessage) -> Op | None:
        """None for what this broker has not written, which is logged, and for what is about a half
        topic that was deleted.
        """
        found = properties.parse(message.properties)
        if found.get(SERIAL) not in (None, str(store.serials.of(names.HALF_TOPIC))):
            return None
        root = properties.number(found.get(properties.PREPARED_QUEUE_OFFSET))
        half = properties.number(message.body.decode("ascii", "replace"))
        if root is not None and half is not None and found.get(OUTCOME) in set(Outcome):
            return cls(root, Outcome(found[OUTCOME]), half)
        logger.error(
            "%s has a message that is not ours, at %d", message.topic, message.queue_offset
        )
        return None


async def messages(
    store: MessageStore, topic: str, queue: int, offset: int, end: int
) -> AsyncIterator[StoredMessage]:
    """The messages of a queue, without those that are damaged; others have their turn between
    slices. Raises StorageError.
    """
    offset = max(offset, store.bounds(topic, queue)[0])
    while offset < end:
        found = store.read(topic, queue, offset, min(_SLICE, end - offset), _SLICE_BYTES)
        for each in found:
            try:
                yield decode(each.frame)[0]
            except BodyError as error:
                logger.error("%s has a damaged message, at %d: %s", topic, each.queue_offset, error)
        # Nothing found is a slice of damage, which is stepped over whole.
        offset = found[-1].queue_offset + 1 if found else offset + _SLICE
        await asyncio.sleep(0)

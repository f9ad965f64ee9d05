"""Messages that waited in a system topic, put again to the topic that they were sent to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.group_figures import ROCKETMQ_PREFIX
from penstock.core.counted import counted
from penstock.core.errors import StorageError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.state.levels import RETRY_BASE
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage

if TYPE_CHECKING:
    from penstock.broker.topic import Topic
    from penstock.rocketmq.broker.state.levels import DelayLevels
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore

HOLDER: Final = f"{ROCKETMQ_PREFIX}waiting"
"""The group of a topic that holds what waits there."""
PROPERTIES_MAX: Final = properties.BYTES_MAX - 128
"""Bytes of properties that a waiting message may have; it gets more later: checks made, origin."""

logger = logging.getLogger("penstock.mqbroker")


def address(draft: Draft, found: dict[str, str]) -> None:
    """Note in a message's properties, parsed, where it is to go after it has waited."""
    found[properties.REAL_TOPIC] = draft.topic
    found[properties.REAL_QUEUE] = str(draft.queue)


def real_topic(stored: StoredMessage) -> str:
    """The topic that a stored message is for, even while it waits in a system topic."""
    if stored.topic in names.NOT_FOR_CLIENTS:
        return properties.value_of(stored.properties, properties.REAL_TOPIC) or stored.topic
    return stored.topic


def moved(draft: Draft, topic: str, queue: int, found: dict[str, str]) -> Draft:
    """The draft with these properties, parsed, in another topic.

    Raises RefusedError when the properties have become too long.
    """
    text = properties.join(found)
    if len(text.encode("utf-8", "replace")) > PROPERTIES_MAX:
        raise RefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message's properties are longer than "
            f"the {PROPERTIES_MAX} bytes that one that waits may have",
        )
    return replace(draft, topic=topic, queue=queue, properties=text)


def delayed(levels: DelayLevels, draft: Draft, found: dict[str, str], level: int) -> Draft:
    """The draft with these properties, parsed, as it waits in a delay level first.

    Raises RefusedError when the properties have become too long.
    """
    # Java takes a level above the highest for the highest.
    level = levels.clip(level)
    found[properties.DELAY] = str(level)
    for name in properties.TIMERS:  # a level comes before a time
        found.pop(name, None)
    # Java keeps DELAY, REAL_TOPIC and REAL_QID in the delivered message, too.
    address(draft, found)
    return moved(draft, names.SCHEDULE_TOPIC, level - 1, found)


def released(topics: TopicTable, waiting: StoredMessage) -> Draft | None:
    """The message as it goes to its topic, with all its properties, as upstream leaves them.

    None when its topic has been deleted meanwhile, or was never told; that is logged.
    """
    topic = properties.value_of(waiting.properties, properties.REAL_TOPIC)
    queue = properties.number(properties.value_of(waiting.properties, properties.REAL_QUEUE))
    if topic is None or queue is None:
        logger.error(
            "dropped message %s of %s, which does not say where it belongs",
            waiting.offset_id,
            waiting.topic,
        )
        return None
    if topics.get(topic) is None:
        logger.warning(
            "dropped message %s of %s: its topic %s has been deleted",
            waiting.offset_id,
            waiting.topic,
            topic,
        )
        return None
    draft = Draft.of(waiting)
    # RocketMQ spec 4.6: DELAY, REAL_TOPIC and REAL_QID stay in what is delivered.
    draft.topic, draft.queue = topic, queue
    return draft


def hold(topic: Topic | None, log_offset: int) -> None:
    """Keep the messages of a topic from a log offset on, however old they become."""
    if topic is not None and not topic.exiting and topic.groups.get(HOLDER) != log_offset:
        topic.commit_group(HOLDER, log_offset)


async def put_all(
    store: MessageStore, drafts: Sequence[Draft]
) -> tuple[list[Draft], StorageError | None]:
    """Store messages of whatever queues, in their order within each: one put for each queue.

    Those that could not be stored, and why.
    """
    groups: dict[tuple[str, int], list[Draft]] = {}
    for draft in drafts:
        groups.setdefault((draft.topic, draft.queue), []).append(draft)
    left: list[Draft] = []
    failure: StorageError | None = None
    waiting = len(groups)
    finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(group: list[Draft], _placed: list[Placed], error: StorageError | None) -> None:
        nonlocal waiting, failure
        # Another queue's put may have succeeded: only what failed is put again.
        if error is not None:
            left.extend(group)
            failure = error
        waiting -= 1
        if not waiting and not finished.done():
            finished.set_result(None)

    for group in groups.values():
        store.put(group, partial(done, group))
    if groups:
        await finished
    return left, failure


async def put_off(
    store: MessageStore, levels: DelayLevels, drafts: Sequence[Draft], reason: StorageError | None
) -> list[Draft]:
    """Let messages wait once more whose topics took none, for the next longer level of delay: what
    is behind them is for other topics. Those for which that could not be stored either.
    """
    left: list[Draft] = []
    waiting: list[tuple[Draft, Draft]] = []
    for draft in drafts:
        found = properties.parse(draft.properties)
        level = properties.number(found.get(properties.DELAY)) or RETRY_BASE - 1
        try:
            waiting.append((draft, delayed(levels, draft, found, level + 1)))
        except RefusedError:
            left.append(draft)
    failed, _ = await put_all(store, [delayed_one for _, delayed_one in waiting])
    failed_ids = {id(each) for each in failed}
    left += [draft for draft, delayed_one in waiting if id(delayed_one) in failed_ids]
    if len(left) < len(drafts):
        logger.warning(
            "%s for topics that take none: to be tried again after a longer delay - %s",
            counted(len(drafts) - len(left), "message"),
            reason,
        )
    return left

"""Durable changes: every change that is answered with 200 is on the disk before the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.net.http.server.v1_api import ApiError
from penstock.node.registry import TopicList
from penstock.storage.store import Store

logger = logging.getLogger("penstock.nsqd")

ONE_SYNC_MIN: Final = 8
"""The fewest topics for which all of the data path is synced at once: that takes as long as some
files by themselves, as it also writes what others have left to the system.
"""
_TURN: Final = 50


def write_down(topic: Topic) -> None:
    """Sync the changes of a topic. Raises ApiError 500 as ``check_written`` does."""
    topic.journal.save_now()
    check_written(topic)


async def write_down_all(topics: Collection[Topic], store: Store) -> set[str]:
    """Sync the changes of topics, many of them with one sync; the names of those that failed.

    Others are served meanwhile.
    """
    if len(topics) < ONE_SYNC_MIN:
        return await _one_by_one(topics)
    saved = []
    for topic in topics:
        saved.append((topic, topic.journal.save_for_sync()))
        if len(saved) % _TURN == 0:
            await asyncio.sleep(0)
    try:
        synced = await asyncio.to_thread(store.disk.sync_all, store.data_path)
    except StorageError as error:
        logger.error("failed to write down progress of %d topics - %s", len(topics), error)
        for topic in topics:
            topic.journal.write_whole()
        return {topic.name for topic in topics}
    if not synced:
        return await _one_by_one(topics)
    for topic, at in saved:
        if at is not None:
            topic.journal.note_synced(at)
    return {topic.name for topic, at in saved if at is None}


async def _one_by_one(topics: Iterable[Topic]) -> set[str]:
    failed = set()
    for topic in topics:
        if not topic.journal.save_now():
            failed.add(topic.name)
        await asyncio.sleep(0)
    return failed


def check_written(topic: Topic) -> None:
    """Raise ApiError 500 if the last change of a topic could not be written at once.

    The change is in effect all the same, and is written later unless the process is killed first.
    """
    if not topic.journal.written:
        raise ApiError(500, "INTERNAL_ERROR")


async def write_names(topic_list: TopicList) -> None:
    """Sync the list of topics and channels, with those that are paused. Raises ApiError 500."""
    try:
        await topic_list.write()
    except StorageError:
        raise ApiError(500, "INTERNAL_ERROR") from None

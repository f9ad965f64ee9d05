"""Durable changes: every change that is answered with 200 is on the disk before the answer."""

from __future__ import annotations

from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.node.registry import TopicList
from penstock.nsq.http_api import ApiError


def write_down(topic: Topic) -> None:
    """Sync the changes of a topic. Raises ApiError 500 as ``check_written`` does."""
    topic.journal.save_now()
    check_written(topic)


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

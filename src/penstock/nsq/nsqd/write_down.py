"""What is answered with 200 stays so after a kill: it is on the disk before the answer."""

from __future__ import annotations

from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.nsq.http_api import ApiError
from penstock.nsq.nsqd.metadata import MetadataFile


def write_down(topic: Topic) -> None:
    """Sync what was changed in a topic; ApiError 500 as from ``check_written``."""
    topic.save_now()
    check_written(topic)


def check_written(topic: Topic) -> None:
    """ApiError 500 when a change of a topic that is written down at once could not be.

    It holds then all the same, and is written later, unless a kill comes first.
    """
    if not topic.written:
        raise ApiError(500, "INTERNAL_ERROR")


async def write_names(metadata: MetadataFile) -> None:
    """Sync which topics and channels there are, and which are paused; ApiError 500."""
    try:
        await metadata.write()
    except StorageError:
        raise ApiError(500, "INTERNAL_ERROR") from None

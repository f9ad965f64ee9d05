"""``nsqd.dat``: which topics and channels there are and which are paused, in NSQ's own format.

The log and its cursors do not need it; it is what NSQ's tools and people read, what carries the
pause states, and what may be put in place to have topics and channels from the first start on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

from penstock.broker.broker import Broker
from penstock.broker.topic import Topic
from penstock.core.errors import ConfigError, StorageError
from penstock.core.gojson import dumps
from penstock.core.names import is_valid_name
from penstock.net.tasks import spawn
from penstock.nsq.version import NSQ_VERSION

logger = logging.getLogger("penstock.nsqd")

FILE_NAME: Final = "nsqd.dat"
_COALESCE_S: Final = 0.05


def describe(broker: Broker) -> bytes:
    """The content of the file for what the broker holds now; ephemeral names are left out."""
    topics = [
        {"name": topic.name, "paused": topic.paused, "channels": _channels(topic)}
        for topic in broker.topics.values()
        if not topic.ephemeral
    ]
    return dumps({"topics": topics, "version": NSQ_VERSION})


def _channels(topic: Topic) -> list[dict[str, Any]]:
    return [
        {"name": channel.name, "paused": channel.paused}
        for channel in topic.channels.values()
        if not channel.ephemeral
    ]


def load(broker: Broker) -> None:
    """Make the topics and channels that the file names, and pause those that it says are.

    Raises ConfigError when the file is not what nsqd writes, StorageError when it cannot be read.
    """
    data = broker.store.read_file(FILE_NAME)
    if data is None:
        return
    try:
        content = json.loads(data)
        for entry in content.get("topics") or []:
            _load_topic(broker, entry)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        path = f"{broker.store.data_path}/{FILE_NAME}"
        raise ConfigError(
            f"failed to load metadata - failed to parse metadata in {path} - {error}"
        ) from error


def _load_topic(broker: Broker, entry: dict[str, Any]) -> None:
    name = entry["name"]
    if not is_valid_name(name):
        logger.warning("skipping creation of invalid topic %s", name)
        return
    topic = broker.topic(name)
    topic.paused = bool(entry.get("paused"))
    for channel_entry in entry.get("channels") or []:
        channel_name = channel_entry["name"]
        if not is_valid_name(channel_name):
            logger.warning("skipping creation of invalid channel %s", channel_name)
            continue
        topic.channel(channel_name).paused = bool(channel_entry.get("paused"))
    topic.distribute()


class MetadataFile:
    """Writes the file: at once where an answer waits for it, soon where none does."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = asyncio.Lock()
        self._scheduled = False

    def changed(self) -> None:
        """Something was created or deleted: write soon, once for all that happens meanwhile."""
        if not self._scheduled:
            self._scheduled = True
            spawn(self._write_soon(), "metadata")

    async def write(self) -> None:
        """Write now. Raises StorageError."""
        async with self._lock:
            data = describe(self._broker)
            logger.info("NSQ: persisting topic/channel metadata to %s/%s",
                        self._broker.store.data_path, FILE_NAME)  # fmt: skip
            await asyncio.to_thread(self._broker.store.replace_file, FILE_NAME, data)

    async def _write_soon(self) -> None:
        await asyncio.sleep(_COALESCE_S)
        self._scheduled = False
        try:
            await self.write()
        except StorageError as error:
            logger.error("failed to persist metadata - %s", error)

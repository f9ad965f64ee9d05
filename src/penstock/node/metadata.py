"""``nsqd.dat``: which topics and channels there are and which are paused, in NSQ's own format.

The log and its cursors do not need it; it is what NSQ's tools and people read, what carries the
pause states, and what may be put in place to have topics and channels from the first start on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final, NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.topic import Topic
from penstock.core.errors import ConfigError, StorageError
from penstock.core.gojson import dumps
from penstock.core.names import is_valid_name
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.storage.store import Store

logger = logging.getLogger("penstock.nsqd")

FILE_NAME: Final = "nsqd.dat"
# Go writes the file behind the answer too, once for each change (NSQ spec 3.5); this is once
# for a burst of them.
_COALESCE_S: Final = 0.05
RETRY_NS: Final = 10 * SECOND


def describe(broker: Broker) -> bytes:
    """The content of the file for what the broker holds now, but for ephemeral names and those of
    other dialects.
    """
    topics = [
        {"name": topic.name, "paused": topic.paused, "channels": _channels(topic)}
        for topic in broker.topics.values()
        if not topic.ephemeral and is_valid_name(topic.name)
    ]
    return dumps({"topics": topics, "version": NSQ_VERSION})


def _channels(topic: Topic) -> list[dict[str, Any]]:
    return [
        {"name": channel.name, "paused": channel.paused}
        for channel in topic.channels.values()
        if not channel.ephemeral
    ]


class TopicEntry(NamedTuple):
    """A topic in the file, its name not checked; channels are names and whether they are paused."""

    name: str
    paused: bool
    channels: list[tuple[str, bool]]


def read(store: Store) -> list[TopicEntry]:
    """The topics in the metadata file of a data path; empty when there is no such file.

    Raises ConfigError when the file is not what nsqd writes, StorageError when it cannot be read.
    """
    data = store.read_file(FILE_NAME)
    if data is None:
        return []
    try:
        return [_topic_entry(entry) for entry in json.loads(data).get("topics") or []]
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        path = f"{store.data_path}/{FILE_NAME}"
        raise ConfigError(
            f"failed to load metadata - failed to parse metadata in {path} - {error}"
        ) from error


def _topic_entry(entry: dict[str, Any]) -> TopicEntry:
    # Null, [] and absent are alike: nsqd writes null since 1.3.0 (NSQ spec 3.5).
    channels = [_name_and_pause(channel) for channel in entry.get("channels") or []]
    return TopicEntry(*_name_and_pause(entry), channels)


def _name_and_pause(entry: dict[str, Any]) -> tuple[str, bool]:
    name = entry["name"]
    if not isinstance(name, str):
        raise TypeError(f"a name is not text: {name!r}")
    return name, bool(entry.get("paused"))


def load(broker: Broker) -> None:
    """Make the topics and channels that the file names, and pause those that it says are.

    Raises ConfigError when the file is not what nsqd writes, StorageError when it cannot be read.
    """
    for entry in read(broker.store):
        if not is_valid_name(entry.name):
            logger.warning("skipping creation of invalid topic %s", entry.name)
            continue
        topic = broker.topic(entry.name)
        topic.paused = entry.paused
        for name, paused in entry.channels:
            if is_valid_name(name):
                topic.listed_channel(name).paused = paused
            else:
                logger.warning("skipping creation of invalid channel %s", name)
        # Once all its channels are there: the first alone would get what waits in the topic.
        topic.distribute()


class MetadataFile:
    """The file of topics and channels: written at once where an answer waits for it, else soon, and
    again while that fails; not at all while it is right.
    """

    def __init__(self, broker: Broker) -> None:
        """Raise StorageError if the file cannot be read."""
        self._broker = broker
        self._content = broker.store.read_file(FILE_NAME)
        """The content of the file; None if that is not known."""
        self._lock = asyncio.Lock()
        self._scheduled = False
        self._stale = False
        self._retry_at = 0

    def changed(self) -> None:
        """Something was created or deleted: write soon, once for all that happens meanwhile."""
        self._stale = True
        if not self._scheduled:
            self._scheduled = True
            spawn(self._write_soon(), "metadata")

    async def write(self) -> None:
        """Write now, unless the file is right. Raises StorageError."""
        # The content is taken within the lock: of two writes in threads, the older content could
        # otherwise be renamed into place last.
        async with self._lock:
            self._stale = False
            data = describe(self._broker)
            if data == self._content:
                return
            # Unknown until the write has ended: one that fails may have left either content.
            self._content = None
            logger.info(
                "NSQ: persisting topic/channel metadata to %s/%s",
                self._broker.store.data_path,
                FILE_NAME,
            )
            try:
                await asyncio.to_thread(self._broker.store.replace_file, FILE_NAME, data)
            except StorageError:
                self._stale = True
                raise
            self._content = data

    def tick(self, now: int) -> None:
        """Write soon what could not be written, if it is time to try again (monotonic ns)."""
        if self._stale and not self._scheduled and now >= self._retry_at:
            self._retry_at = now + RETRY_NS
            self.changed()

    async def _write_soon(self) -> None:
        await asyncio.sleep(_COALESCE_S)
        self._scheduled = False
        if not self._stale:  # written already, for an answer that needed it
            return
        try:
            await self.write()
        except StorageError as error:
            logger.error("failed to persist metadata - %s", error)

"""The topics and channels of a node: made when they are first used, paused, deleted durably.

Daemons over the node observe it, to announce topics and to end the connections that use them.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, Protocol

from penstock.broker.broker import Broker
from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import StorageError, TooManyFilesError
from penstock.net.gate import file_limit
from penstock.net.tasks import spawn
from penstock.node.commits import Commits

logger = logging.getLogger("penstock.node")

FILES_OF_A_TOPIC: Final = 2
"""The segment and the journal. New topics may take half of the file handles, so that none is left
without connections, and no connection without a topic to publish to.
"""


class TopicList(Protocol):
    """The file that lists topics and channels, and which of them are paused."""

    def changed(self) -> None:
        """Write the file soon."""
        ...

    async def write(self) -> None:
        """Write the file now. Raises StorageError."""
        ...

    def tick(self, now: int) -> None:
        """Write the file soon if it could not be written, and it is time to try (monotonic ns)."""
        ...


class Observer:
    """A daemon over the node, as the registry tells it of changes; it overrides what it needs."""

    def topic_created(self, topic: Topic) -> None:
        """A topic was made. Raises StorageError."""

    def topic_deleted(self, name: str) -> None:
        """A topic is gone, with all its channels. Raises StorageError."""

    def channel_created(self, topic: Topic, channel: Channel) -> None:
        """A channel was made, which has no message yet."""

    def channel_deleted(self, topic: Topic, channel: Channel) -> None:
        """A channel is gone, or goes with its topic; its consumers have to be closed."""

    def channel_paused(self, channel: Channel) -> None:
        """A channel gives its consumers nothing more, beyond what it has given them already."""


class Registry:
    """The topics and channels of one node: made, paused and deleted here."""

    def __init__(
        self, broker: Broker, commits: Commits, topic_list: TopicList, clock: Clock
    ) -> None:
        self.topics = broker.topics
        """The topics by name. The mapping stays the same object."""
        self.topic_list = topic_list
        self._broker = broker
        self._commits = commits
        self._clock = clock
        self._observers: list[Observer] = []
        self._topics_max = file_limit() // (2 * FILES_OF_A_TOPIC)

    def observe(self, observer: Observer) -> None:
        """Tell it of changes from now on."""
        self._observers.append(observer)

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is not there. Raises StorageError."""
        topic = self.topics.get(name)
        if topic is None:
            if len(self.topics) >= self._topics_max:
                raise TooManyFilesError(
                    f"{self._topics_max} topics are the most that the limit on "
                    "open files leaves room for"
                )
            topic = self._broker.topic(name)
            logger.info("TOPIC(%s): created", name)
            self._introduce(topic)
            self.topic_list.changed()
        return topic

    def _introduce(self, topic: Topic) -> None:
        """Tell everybody of a new topic; one that not all can take is taken back, so that the next
        use of its name tries again. Raises StorageError.
        """
        try:
            for observer in self._observers:
                observer.topic_created(topic)
        except StorageError:
            topic.exiting = True
            # The observer's error is the one to report.
            with suppress(StorageError):
                self._remove(topic)
            raise

    def channel(self, topic: Topic, name: str) -> Channel:
        """The channel of that name, made when it is not there."""
        channel = topic.channels.get(name)
        if channel is None:
            channel = topic.channel(name)
            logger.info("TOPIC(%s): new channel(%s)", topic.name, name)
            for observer in self._observers:
                observer.channel_created(topic, channel)
            self.topic_list.changed()
            # Last: observers are promised a channel without messages.
            self.distribute(topic)
        return channel

    def distribute(self, topic: Topic) -> None:
        """Give the channels what they may have now, and the consumers of it."""
        topic.distribute()
        now = self._clock.monotonic_ns()
        for channel in topic.channels.values():
            channel.dispatch(now)

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic with all its channels, durably. Raises StorageError: if its log could not
        be removed, the topic stays as it was; if an observer's files could not, it is deleted.
        """
        # At once: publishes that come while it settles are refused as exiting (NSQ spec 3.1).
        topic.exiting = True
        await self._commits.settle(topic)
        error = None
        if self.topics.get(topic.name) is topic:  # or somebody else has deleted it meanwhile
            error = self._remove(topic)
        if not topic.ephemeral:
            # Before the answer, or nsqd.dat would bring the topic back at the next start.
            await self.topic_list.write()
        if error is not None:
            raise error

    def _remove(self, topic: Topic) -> StorageError | None:
        """Delete it, and tell everybody; an error that one of them met. Raises StorageError."""
        try:
            self._broker.delete_topic(topic.name)
        except StorageError:
            topic.exiting = False
            raise
        self._commits.forget(topic)
        for channel in topic.channels.values():
            for observer in self._observers:
                observer.channel_deleted(topic, channel)
        failure = None
        for observer in self._observers:
            try:
                observer.topic_deleted(topic.name)
            except StorageError as error:
                # The other observers still have to hear of it.
                failure = error
        logger.info("TOPIC(%s): deleted", topic.name)
        return failure

    def delete_channel(self, topic: Topic, channel: Channel) -> None:
        """Delete a channel; an ephemeral topic goes with its last one."""
        topic.delete_channel(channel.name)
        for observer in self._observers:
            observer.channel_deleted(topic, channel)
        self.topic_list.changed()
        logger.info("TOPIC(%s): deleting channel %s", topic.name, channel.name)
        # NSQ spec 3.1. Not at once: somebody may be subscribing in this pass of the loop.
        if topic.ephemeral and not topic.channels:
            spawn(self._delete_unused(topic), f"delete {topic.name}")

    async def _delete_unused(self, topic: Topic) -> None:
        if not topic.channels:  # nobody has subscribed in the same pass of the loop
            await self.delete_topic(topic)

    def pause_topic(self, topic: Topic, paused: bool) -> None:
        """Let a topic give its channels nothing, or all that has waited meanwhile."""
        self.topic_list.changed()
        if paused:
            topic.pause()
        else:
            topic.unpause()
            self.distribute(topic)

    def pause_channel(self, channel: Channel, paused: bool) -> None:
        """Let a channel give its consumers nothing, or go on."""
        self.topic_list.changed()
        if paused:
            channel.pause()
            for observer in self._observers:
                observer.channel_paused(channel)
        else:
            channel.unpause()
            channel.dispatch(self._clock.monotonic_ns())

    def consumer_left(self, topic: Topic, channel: Channel) -> None:
        """A subscriber is gone: an ephemeral channel goes with its last one."""
        # A topic that is being deleted closes its consumers, and takes its channels with it.
        last = channel.ephemeral and not channel.consumers and not topic.exiting
        if last and topic.channels.get(channel.name) is channel:
            self.delete_channel(topic, channel)

"""Moving spent messages to their dead-letter topics: published there first, then finished here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from penstock.broker.channels.channel import Channel
from penstock.broker.dead_letters import DeadLetterBatch, encode_origins
from penstock.broker.publish.records import Records
from penstock.core.clock import Clock
from penstock.core.counted import counted
from penstock.core.errors import StorageError
from penstock.node.commits import Commits
from penstock.node.registry import Registry

logger = logging.getLogger("penstock.node")

Letters: TypeAlias = Callable[[Sequence[memoryview], bytes], Records]
"""A function that makes records of dead letters' frames and the note of their origins."""


class DeadLetters:
    """The carrier of all channels' dead letters."""

    def __init__(
        self, registry: Registry, commits: Commits, clock: Clock, letters: Letters
    ) -> None:
        self._registry = registry
        self._commits = commits
        self._clock = clock
        self._letters = letters

    def move(self, channel: Channel, now: int) -> None:
        """Publish what the channel has given up; when that is committed it is finished there.

        What cannot be published stays with the channel, which asks again a second later.
        """
        parcel = channel.take_spent(now)
        channel.dispatch(now)  # those that must be delivered on after all
        if parcel is None:
            return
        done = partial(self._moved, channel, parcel)
        try:
            topic = self._registry.topic(channel.dead_letter_topic)
        except StorageError as error:
            done(error)
            return
        letters = self._letters(parcel.frames, encode_origins(parcel.origins))
        self._commits.publish(topic, letters, 0, done)

    def _moved(self, channel: Channel, parcel: DeadLetterBatch, error: StorageError | None) -> None:
        if error is not None:
            logger.error(
                "CHANNEL(%s:%s): failed to move %s to %s, trying again - %s",
                channel.topic_name,
                channel.name,
                counted(len(parcel.frames), "message"),
                channel.dead_letter_topic,
                error,
            )
        channel.settle(parcel, self._clock.monotonic_ns(), moved=error is None)

"""Keeping a topic within its bounds: publishes are refused, or the oldest messages dropped.

Looking how full a topic is costs a walk over its channels, so it is looked at only when what was
seen the last time may be used up: messages that were finished meanwhile make more room, never less.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.publish.batching import Outcome, Staged
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.broker.publish.fill import Filled, fill_of, fill_of_channel, fill_waiting, mean_bytes
from penstock.core.clock import Clock
from penstock.core.counted import counted
from penstock.core.errors import StorageError
from penstock.storage.batch import Batch

if TYPE_CHECKING:
    from penstock.storage.recovery.damage import DamageRecord

logger = logging.getLogger(__name__)

# Every publish to a full topic may drop messages: a line for each would fill the log.
DROPS_LOGGED_EVERY_NS: Final = 10 * 10**9


class Limited(Filled, Protocol):
    """The part of a topic that its bounds need."""

    name: str
    refused_count: int
    dropped_count: int

    @property
    def damage(self) -> DamageRecord: ...

    @property
    def depth(self) -> int: ...

    def skip_to(self, end: int) -> None:
        """Go on from ``end``."""
        ...


class Limiter:
    """The bounds of one topic, and how much more it may take."""

    __slots__ = ("_bytes_left", "_clock", "_log_at", "_messages_left", "_promised",
                 "_topic", "_untold", "bounds", "refuses")  # fmt: skip

    def __init__(self, topic: Limited, bounds: Bounds, clock: Clock) -> None:
        self.bounds = bounds
        self.refuses = bounds.overflow is Overflow.REFUSE
        self._topic = topic
        self._clock = clock
        self._untold = 0  # drops that were not logged yet
        self._log_at = 0
        self._promised = 0, 0  # messages and bytes that the commit under way has admitted
        self.reset()

    def reset(self) -> None:
        """More may be needed than when it was looked at."""
        self._messages_left = self._bytes_left = 0

    # --- refusing ------------------------------------------------------------------------------

    def admit(self, staged: list[Staged]) -> tuple[list[Staged], list[Outcome]]:
        """The publishes that fit, and the callbacks of all publishes in their order.

        The others get a TopicFullError.
        """
        if not self.refuses:
            return staged, [item.done for item in staged]
        admitted = []
        outcomes: list[Outcome] = []
        looked = False
        self._promised = 0, 0
        for item in staged:
            messages, nbytes = item.records.count, item.records.nbytes
            # Once a commit is enough: nothing is finished between two of its publishes.
            if not looked and not self._fits(messages, nbytes):
                self._measure()  # what this commit has admitted is not in the log yet
                self._messages_left -= self._promised[0]
                self._bytes_left -= self._promised[1]
                looked = True
            if self._fits(messages, nbytes):
                self._take(messages, nbytes)
                self._promised = self._promised[0] + messages, self._promised[1] + nbytes
                admitted.append(item)
                outcomes.append(item.done)
            else:
                self._topic.refused_count += messages
                outcomes.append(partial(_refuse, item.done, self.bounds))
        return admitted, outcomes

    def admit_all(self, messages: int, nbytes: int) -> None:
        """Take a commit. Raises TopicFullError when it does not fit."""
        if not self.refuses:
            return
        if not self._fits(messages, nbytes):
            self._measure()
            if not self._fits(messages, nbytes):
                self._topic.refused_count += messages
                raise self.bounds.refusal()
        self._take(messages, nbytes)
        self._promised = messages, nbytes

    def stored(self, batches: list[Batch]) -> None:
        """Count what the admitted messages take in the log beyond their bodies."""
        if self.refuses:
            self._bytes_left -= sum(batch.nbytes for batch in batches) - self._promised[1]

    # --- dropping ------------------------------------------------------------------------------

    def arrived(self, batches: list[Batch]) -> None:
        """Make room for these batches: drop the oldest messages of lagging channels and of the
        topic, down to the bounds. Messages in flight are not dropped.
        """
        if self.refuses:
            return
        messages = batches[-1].next_offset - batches[0].first_offset
        nbytes = sum(batch.nbytes for batch in batches)
        if self._fits(messages, nbytes):
            self._take(messages, nbytes)
            return
        topic = self._topic
        if topic.damage.pending:  # a channel may lag only because damage set it back
            return
        size = mean_bytes(topic.log)
        dropped = 0
        for channel in topic.channels.values():
            surplus = fill_of_channel(topic.log, channel.state, size).surplus(self.bounds)
            dropped += channel.state.drop_oldest(surplus)
        surplus = min(fill_waiting(topic).surplus(self.bounds), topic.depth)
        if surplus:
            topic.skip_to(topic.head + surplus)
        self._note(dropped + surplus)
        self._measure()

    def _note(self, dropped: int) -> None:
        self._topic.dropped_count += dropped
        self._untold += dropped
        now = self._clock.monotonic_ns()
        if self._untold and now >= self._log_at:
            logger.warning(
                "TOPIC(%s): full: dropped %s, the oldest first",
                self._topic.name,
                counted(self._untold, "message"),
            )
            self._untold = 0
            self._log_at = now + DROPS_LOGGED_EVERY_NS

    # --- looking -------------------------------------------------------------------------------

    def _measure(self) -> None:
        fill = fill_of(self._topic)
        self._messages_left = self.bounds.max_depth - fill.messages
        self._bytes_left = self.bounds.max_bytes - fill.nbytes

    def _fits(self, messages: int, nbytes: int) -> bool:
        return (messages <= self._messages_left or not self.bounds.max_depth) and (
            nbytes <= self._bytes_left or not self.bounds.max_bytes
        )

    def _take(self, messages: int, nbytes: int) -> None:
        self._messages_left -= messages
        self._bytes_left -= nbytes


def _refuse(done: Outcome, bounds: Bounds, error: StorageError | None) -> None:
    done(error or bounds.refusal())

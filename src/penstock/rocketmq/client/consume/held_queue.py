"""A queue that a consumer has: what was pulled of it and is not done, and how far all is done."""

from __future__ import annotations

from penstock.core.units import SECOND
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.state import QueueState
from penstock.rocketmq.protocol.message_queue import MessageQueue

LOCK_NS = 30 * SECOND
"""Nanoseconds for which a granted lock is relied upon; the broker keeps it for 60 s."""


class HeldQueue:
    """A queue's messages by offset, in order; an offset is committed when all below it is done."""

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.next_offset = offset
        self.committed = -1
        """The offset that the broker, or the file, was told last."""
        self.nbytes = 0
        self.is_dropped = False
        """True once the queue belongs to another member."""
        self.is_paused = False
        self.is_busy = False
        """One of its messages is being handled; of use in order only."""
        self.is_abandoned = False
        """True if the queue was given up while a message was being handled: its lock stays."""
        self.locked_ns: int | None = None
        """The time at which the broker has granted the lock last."""
        self.pulling: Job[None] | None = None
        self._messages: dict[int, Received] = {}
        self._room: Promise[None] | None = None
        self._idle: Promise[None] | None = None

    @property
    def commit_offset(self) -> int:
        """The offset below which everything is done."""
        # A dict keeps the order of pulls, so the first key is the oldest offset.
        return next(iter(self._messages), self.next_offset)

    @property
    def count(self) -> int:
        """Messages that are not done."""
        return len(self._messages)

    @property
    def span(self) -> int:
        """The distance from the oldest message that is not done to the newest."""
        return self.next_offset - self.commit_offset

    def is_locked(self, now: int) -> bool:
        """True if it is known to be this member's alone."""
        return self.locked_ns is not None and now < self.locked_ns + LOCK_NS

    def add(self, messages: list[Received], next_offset: int) -> None:
        """Add messages that were pulled."""
        held = self._messages
        for message in messages:
            held[message.stored.queue_offset] = message
            self.nbytes += len(message.body)
        self.next_offset = next_offset

    def first(self, most: int) -> list[Received]:
        """The oldest messages that are not done."""
        return [message for message, _ in zip(self._messages.values(), range(most), strict=False)]

    def done(self, messages: list[Received]) -> None:
        """Take out messages that are done."""
        held = self._messages
        for message in messages:
            offset = message.stored.queue_offset
            if held.get(offset) is message:  # and not the same one, pulled again
                del held[offset]
                self.nbytes -= len(message.body)
        self.wake()

    def seek(self, offset: int) -> None:
        """Forget what was pulled, and go on there."""
        self._messages.clear()
        self.nbytes = 0
        self.next_offset = offset
        # No offset: the next commit writes, even if it is the one that was told last.
        self.committed = -1
        self.wake()

    def holds(self, message: Received) -> bool:
        """True if it was pulled here, and is not done."""
        return self._messages.get(message.queue_offset) is message

    # --- waiting ---------------------------------------------------------------------------------

    def change(self) -> Promise[None]:
        """Kept when a message is done, or the queue is sought, resumed, or dropped."""
        if self._room is None:
            self._room = Promise()
        return self._room

    def wake(self) -> None:
        """Keep that promise."""
        room, self._room = self._room, None
        if room is not None:
            room.keep(None)

    def idle(self) -> Promise[None]:
        """Kept when none of its messages is being handled in order."""
        promise = self._idle or Promise[None]()
        if self.is_busy:
            self._idle = promise
        else:
            promise.keep(None)
        return promise

    def rest(self) -> None:
        """The message that was being handled is not any more."""
        self.is_busy = False
        self.wake_idle()

    def wake_idle(self) -> None:
        """Keep that promise, to look again."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.keep(None)

    def state(self, now: int) -> QueueState:
        """The visible state of the queue."""
        return QueueState(
            self.queue,
            self.next_offset,
            self.commit_offset,
            self.count,
            self.nbytes,
            self.is_locked(now),
            self.is_paused,
        )

"""A message in a consumer's hands, the same for both clients."""

from __future__ import annotations

from penstock.nsq.client.consume.replies import Replies
from penstock.nsq.client.delays import requeue_delay


class Message:
    """One message. Answer it with ``finish`` or ``requeue``, or its time-out brings it back.

    ``timestamp_ns`` is when it was published, ``attempts`` counts its deliveries from 1.
    The answers give False, and do nothing, when the message was answered before or its connection
    is gone; in the latter case the server delivers it again.
    """

    __slots__ = ("_answered", "_replies", "attempts", "body", "id", "timestamp_ns")

    def __init__(
        self, timestamp_ns: int, attempts: int, identifier: bytes, body: bytes, replies: Replies
    ) -> None:
        self.timestamp_ns = timestamp_ns
        self.attempts = attempts
        self.id = identifier
        self.body = body
        self._replies = replies
        self._answered = False

    @property
    def address(self) -> str:
        """The node that it came from."""
        return self._replies.address

    def finish(self) -> bool:
        """Finish the message."""
        if self._answered:
            return False
        self._answered = True
        return self._replies.finish(self.id)

    def requeue(self, delay: float | None = None, backoff: bool = True) -> bool:
        """Deliver it again, to anyone, ``delay`` seconds from now.

        None is for ``default_requeue_delay`` times its attempts. The consumer slows down for a
        while, because the message could not be handled; not with ``backoff`` False. Raises
        ValueError for an endless delay.
        """
        delay = requeue_delay(delay)  # first, so that the message can still be answered
        if self._answered:
            return False
        self._answered = True
        return self._replies.requeue([(self.id, self.attempts)], delay, backoff)

    def touch(self) -> bool:
        """Restart its time-out, because it takes longer than expected."""
        return not self._answered and self._replies.touch([self.id])

    @property
    def is_alive(self) -> bool:
        """True if the connection that brought it is still there to take an answer."""
        return self._replies.is_open

    @property
    def is_answered(self) -> bool:
        """True if it was finished or requeued here."""
        return self._answered

    def __repr__(self) -> str:
        identifier = self.id.decode("ascii", "replace")
        return f"Message(id={identifier!r}, attempts={self.attempts}, {len(self.body)} bytes)"

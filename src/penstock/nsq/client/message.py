"""A message in a consumer's hands, the same for both clients."""

from __future__ import annotations

from typing import Protocol

from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import RawMessage


class Link(Protocol):
    """The connection a message came over."""

    @property
    def is_open(self) -> bool:
        """Whether it is still there."""
        ...

    def answer(self, command: bytes) -> bool:
        """Send a command about a message; False when the connection is gone."""
        ...

    def settled(self, count: int = 1) -> None:
        """So many messages in flight less."""
        ...


class Message:
    """One message. Answer it with ``finish`` or ``requeue``, or its time-out brings it back.

    ``timestamp_ns`` is when it was published, ``attempts`` counts its deliveries from 1.
    The answers give False, and do nothing, when the message was answered before or its connection
    is gone; in the latter case the server delivers it again.
    """

    __slots__ = ("_answered", "_link", "attempts", "body", "id", "timestamp_ns")

    def __init__(self, raw: RawMessage, link: Link) -> None:
        self.timestamp_ns, self.attempts, self.id, self.body = raw
        self._link = link
        self._answered = False

    def finish(self) -> bool:
        """This message is done."""
        return self._settle(encode.finish(self.id))

    def requeue(self, delay: float = 0.0) -> bool:
        """Deliver it again, to anyone, ``delay`` seconds from now."""
        return self._settle(encode.requeue(self.id, int(delay * 1000)))

    def touch(self) -> bool:
        """Start its time-out anew, because it takes longer than expected."""
        return not self._answered and self._link.answer(encode.touch(self.id))

    @property
    def is_alive(self) -> bool:
        """Whether the connection that brought it is still there to take an answer."""
        return self._link.is_open

    @property
    def is_answered(self) -> bool:
        """Whether it was finished or requeued here."""
        return self._answered

    def _settle(self, command: bytes) -> bool:
        if self._answered:
            return False
        self._answered = True
        self._link.settled()
        return self._link.answer(command)

    def __repr__(self) -> str:
        identifier = self.id.decode("ascii", "replace")
        return f"Message(id={identifier!r}, attempts={self.attempts}, {len(self.body)} bytes)"

"""Messages that arrived together, the same for both clients."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.nsq.client.consume.replies import Replies
from penstock.nsq.client.delays import requeue_delay
from penstock.nsq.client.message import Message
from penstock.nsq.protocol.frames import MessageBlock


class Delivery:
    """Messages of one connection that arrived together: the quick way to handle many.

    Answer all of them at once, or each of ``messages()`` by itself, not both. The answers give
    False, and do nothing, when they were answered before or the connection is gone.
    """

    __slots__ = ("_answered", "_replies", "block")

    def __init__(self, replies: Replies, block: MessageBlock) -> None:
        self._replies = replies
        self._answered = False
        self.block = block
        """The messages with their ids, times and attempts."""

    def __len__(self) -> int:
        return self.block.count

    @property
    def address(self) -> str:
        """The node that they came from."""
        return self._replies.address

    @property
    def is_alive(self) -> bool:
        """True if the connection that brought them is still there to take answers."""
        return self._replies.is_open

    @property
    def is_answered(self) -> bool:
        """True if all of them were finished or requeued at once."""
        return self._answered

    def bodies(self) -> list[bytes]:
        """All bodies, in order."""
        return self.block.bodies()

    def messages(self) -> Iterator[Message]:
        """The messages one by one, each to be answered by itself."""
        replies = self._replies
        for timestamp_ns, attempts, identifier, body in self.block.fields():
            yield Message(timestamp_ns, attempts, identifier, body, replies)

    def part(self, first: int, last: int) -> Delivery:
        """The messages from ``first`` up to, not including, ``last``: for answers to parts."""
        return Delivery(self._replies, self.block.part(first, last))

    def finish(self) -> bool:
        """All of them are done."""
        if self._answered:
            return False
        self._answered = True
        return self._replies.finish_all(self.block.finish_commands(), self.block.count)

    def requeue(self, delay: float | None = None, backoff: bool = True) -> bool:
        """Deliver all of them again; ``delay`` and ``backoff`` as for one message.

        Raises ValueError for an endless delay.
        """
        delay = requeue_delay(delay)  # first, so that they can still be answered
        if self._answered:
            return False
        self._answered = True
        messages = ((identifier, attempts) for _, attempts, identifier, _ in self.block)
        return self._replies.requeue(messages, delay, backoff)

    def touch(self) -> bool:
        """Restart the time-outs of all of them."""
        return not self._answered and self._replies.touch(self.block.ids())

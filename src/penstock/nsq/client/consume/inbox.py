"""Messages that have come to a consumer and were not taken yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from penstock.nsq.client.consume.delivery import Delivery
from penstock.nsq.client.consume.replies import Replies
from penstock.nsq.client.message import Message
from penstock.nsq.protocol.frames import MessageBlock


class Inbox:
    """Taken one message, or one delivery, at a time.

    Messages with more than ``max_attempts`` attempts (0 for no limit) are put aside in ``spent``.
    """

    def __init__(self, max_attempts: int) -> None:
        self.spent: deque[Message] = deque()
        self._max_attempts = max_attempts
        self._blocks: deque[tuple[Replies, MessageBlock]] = deque()
        self._opened: Iterator[Message] | None = None
        self._opened_of: Replies | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to take."""
        return self._opened is None and not self._blocks

    def put(self, replies: Replies, block: MessageBlock) -> None:
        """Add messages that have come."""
        limit = self._max_attempts
        # Nearly always none is beyond the limit: one look at the block, none at each message.
        if limit and block.most_attempts() > limit:
            self._put_sorted(replies, block)
        else:
            self._blocks.append((replies, block))

    def _put_sorted(self, replies: Replies, block: MessageBlock) -> None:
        first = 0
        for index, message in enumerate(Delivery(replies, block).messages()):
            if message.attempts > self._max_attempts:
                self.spent.append(message)
                if index > first:
                    self._blocks.append((replies, block.part(first, index)))
                first = index + 1
        if block.count > first:
            self._blocks.append((replies, block.part(first, block.count)))

    def message(self) -> Message | None:
        """The next message, if there is one."""
        if self._opened is not None:
            message = next(self._opened, None)
            if message is not None:
                return message
            self._opened = None
        if not self._blocks:
            return None
        replies, block = self._blocks.popleft()
        if block.count == 1:
            return Message(*block[0], replies)
        self._opened, self._opened_of = Delivery(replies, block).messages(), replies
        return next(self._opened)

    def delivery(self) -> Delivery | None:
        """The next messages that came together, if there are any; not in the middle of some."""
        return Delivery(*self._blocks.popleft()) if self._blocks else None

    def discard(self, replies: Replies) -> None:
        """Drop messages whose connection is gone: they come again over another."""
        if self._opened_of is replies:
            self._opened = None
        self._blocks = deque(one for one in self._blocks if one[0] is not replies)
        self.spent = deque(one for one in self.spent if one.is_alive)

    def give_back(self) -> None:
        """Requeue everything at once."""
        if self._opened is not None and self._opened_of is not None:
            self._opened_of.give_back([message.id for message in self._opened])
            self._opened = None
        while self._blocks:
            replies, block = self._blocks.popleft()
            replies.give_back(block.ids())
        while self.spent:
            self.spent.popleft().requeue(0, backoff=False)

"""Messages that go the same way, and how a delivery becomes such runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol

from penstock.nsq.client import Delivery, Message

BYTES_MAX: Final = 4_000_000
"""The size of the bodies in a run: a node takes 5,000,000 and more, unless told otherwise."""


class Answerable(Protocol):
    """Several messages, to be answered together: a Delivery, or a few of its messages."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Answerable:
        """The messages from ``first`` up to, not including, ``last``: for answers to parts."""
        ...

    def finish(self) -> bool:
        """All of them are done."""
        ...

    def requeue(self) -> bool:
        """All of them come again later, and the consumer slows down."""
        ...


class Picked:
    """Some messages of a delivery."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def part(self, first: int, last: int) -> Picked:
        return Picked(self._messages[first:last])

    def finish(self) -> bool:
        answered = [message.finish() for message in self._messages]
        return all(answered)

    def requeue(self) -> bool:
        answered = [message.requeue() for message in self._messages]
        return all(answered)

    @property
    def first_id(self) -> bytes:
        """The id of the first message."""
        return self._messages[0].id


class Run:
    """Bodies to pass on, and the messages to answer when that has been done or has failed."""

    __slots__ = ("bodies", "messages")

    def __init__(self, messages: Answerable, bodies: Sequence[bytes]) -> None:
        self.messages = messages
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def first_id(self) -> str:
        """The id of the first message, as the log has it."""
        if isinstance(self.messages, Delivery):
            return self.messages.block.ids(0, 1)[0].decode("ascii", "replace")
        assert isinstance(self.messages, Picked)
        return self.messages.first_id.decode("ascii", "replace")

    def shares(self, count: int) -> Iterator[Run]:
        """At least ``count`` runs of about as many messages each, if there are enough of them."""
        bounds = [len(self) * number // count for number in range(count + 1)]
        for first, last in pairwise(bounds):
            if last > first:
                yield from self._part(first, last)._small_enough()

    def halves(self) -> tuple[Run, Run]:
        """Two runs of a run of several."""
        middle = len(self) // 2
        return self._part(0, middle), self._part(middle, len(self))

    def _part(self, first: int, last: int) -> Run:
        if last - first == len(self):
            return self
        return Run(self.messages.part(first, last), self.bodies[first:last])

    def _small_enough(self) -> Iterator[Run]:
        if len(self) == 1 or sum(map(len, self.bodies)) <= BYTES_MAX:
            yield self
        else:
            for half in self.halves():
                yield from half._small_enough()

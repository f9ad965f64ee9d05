"""A copy as a node for those who only read: its topics are there and grow, and take nothing.

So a dialect serves reads from a copy by the code that serves those of a primary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.net.budget import Memory
from penstock.node.node import Node
from penstock.node.node_options import NodeOptions
from penstock.replication.copy import Copy

REFUSAL: Final = "a copy takes no messages"


class CopiedBroker(Broker):
    """The topics of a copy that were shown; nobody makes, fills or deletes one here."""

    def __init__(self, copy: Copy, clock: Clock) -> None:
        super().__init__(copy.store, clock, SystemChance(), BrokerOptions())
        self.copy = copy
        self._ends: dict[str, int] = {}
        copy.leaving.append(self._left)

    def _stored(self) -> Iterator[str]:
        return iter(())

    def _open(self, name: str) -> Topic:
        raise StorageError(f"{REFUSAL}, and it has no topic {name}")

    def split(self, topic: Topic, queues: int, spread: int) -> None:
        """The copy knows the queues by itself."""

    def _left(self, name: str) -> None:
        self.topics.pop(name, None)
        self._ends.pop(name, None)

    def grow(self, may_show: Callable[[str], bool]) -> Iterator[Topic]:
        """Tell the observers what has come since the last time. Topics that were not shown yet are
        shown, and given here, if they may be. Raises StorageError.
        """
        for name, copied in list(self.copy.topics.items()):
            topic = self.topics.get(name)
            if topic is None:
                if may_show(name):
                    self._ends[name] = copied.log.next_offset
                    topic = self.topics[name] = self._make(name, copied.log, None, copied.queues)
                    yield topic
                continue
            topic.queues = copied.queues
            end = copied.log.next_offset
            batches = list(copied.read(self._ends[name]))
            self._ends[name] = end
            for observer in self._observers if batches else ():
                observer.appended(name, batches)


class _NoList:
    """A copy's list of topics is its primary's."""

    def changed(self) -> None: ...

    async def write(self) -> None: ...

    def tick(self, now: int) -> None: ...


def _no_letters(frames: Sequence[memoryview], note: bytes) -> Records:
    raise AssertionError("a copy moves no dead letters")


class CopiedNode(Node):
    """The node over a copy; it is never started, and the copy is closed by its owner."""

    def __init__(self, copy: Copy, options: NodeOptions, clock: Clock, memory: Memory) -> None:
        self.copied = CopiedBroker(copy, clock)
        super().__init__(self.copied, options, clock, memory, _NoList(), _no_letters)

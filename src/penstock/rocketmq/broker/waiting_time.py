"""The time by which messages wait in a system topic: it goes on while the system's time is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.units import MILLISECOND

if TYPE_CHECKING:
    from penstock.broker.steady_time import SteadyTime
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.protocol.message import StoredMessage

FUTURE_MS: Final = 1000
"""What seems to come from further in the future than this is from before the system's time was set
back: nobody knows how long it has waited.
"""


class WaitingTime:
    """The steady time of one topic, in ms; the system's time while there is no such topic."""

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        self._topic = topic

    def now_ms(self) -> int:
        time = self._steady()
        return self._node.now_ms if time is None else time.now_ns // MILLISECOND

    def ahead_ms(self) -> int:
        """How far the system's time is ahead of this one."""
        time = self._steady()
        return 0 if time is None else time.ahead_ns // MILLISECOND

    def least_ahead_ms(self) -> int:
        """The least of what it has been ahead for the messages that are known, and is now."""
        time = self._steady()
        return 0 if time is None else time.least_ahead_ns // MILLISECOND

    def of(self, log_offset: int, stamp_ms: int) -> int:
        """The time of what a message with this log offset says in the system's time."""
        time = self._steady()
        return stamp_ms if time is None else stamp_ms - time.ahead_at(log_offset) // MILLISECOND

    def age_ms(self, message: StoredMessage, stamp_ms: int) -> int:
        """How long ago something was that a stored message gives this system's time for."""
        place = self._node.store.serials.locate(message.physical_offset)
        return self.now_ms() - self.of(place[1] if place is not None else 0, stamp_ms)

    def due_ms(self, message: StoredMessage, delay_ms: int) -> int:
        """When a message is due so long after it was stored; now if that cannot be known."""
        age_ms = self.age_ms(message, message.store_ms)
        return self.now_ms() + (0 if age_ms < -FUTURE_MS else delay_ms - age_ms)

    def _steady(self) -> SteadyTime | None:
        topic = self._node.host.broker.topics.get(self._topic)
        return None if topic is None else topic.time

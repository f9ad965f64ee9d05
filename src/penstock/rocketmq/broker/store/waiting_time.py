"""The clock for messages that wait in a system topic, unaffected by setting the system's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.units import MILLISECOND

if TYPE_CHECKING:
    from penstock.broker.steady_time import SteadyTime
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.protocol.messages.message import StoredMessage

FUTURE_MS: Final = 1000
"""The limit for stamps in the future. A stamp beyond it was made before the system's time was set
back, so the age of its message is unknown.
"""


class WaitingTime:
    """The steady time of one topic, in ms; the system's time while there is no such topic."""

    def __init__(self, store: MessageStore, clock: Clock, topic: str) -> None:
        self._store = store
        self._clock = clock
        self._topic = topic

    def now_ms(self) -> int:
        time = self._steady()
        return wall_ms(self._clock) if time is None else time.now_ns // MILLISECOND

    def ahead_ms(self) -> int:
        """The lead of the system's time over this time."""
        time = self._steady()
        return 0 if time is None else time.ahead_ns // MILLISECOND

    def least_ahead_ms(self) -> int:
        """The least lead of the system's time, of now and of the time of each known message."""
        time = self._steady()
        return 0 if time is None else time.least_ahead_ns // MILLISECOND

    def of(self, log_offset: int, stamp_ms: int) -> int:
        """Convert a stamp in the system's time, from the message at this log offset."""
        time = self._steady()
        return stamp_ms if time is None else stamp_ms - time.ahead_at(log_offset) // MILLISECOND

    def age_ms(self, message: StoredMessage, stamp_ms: int) -> int:
        """The age of a stamp in the system's time, from a stored message."""
        return self.now_ms() - self._of_message(message, stamp_ms)

    def due_ms(self, message: StoredMessage, delay_ms: int) -> int:
        """The time at which a stored message with this delay is due; now if its age is unknown.

        Unless it is now, it is exact, however long this takes: progress is compared with it.
        """
        stored_ms, now_ms = self._of_message(message, message.store_ms), self.now_ms()
        return now_ms if stored_ms > now_ms + FUTURE_MS else stored_ms + delay_ms

    def _of_message(self, message: StoredMessage, stamp_ms: int) -> int:
        place = self._store.serials.locate(message.physical_offset)
        return self.of(place[1] if place is not None else 0, stamp_ms)

    def _steady(self) -> SteadyTime | None:
        topic = self._store.topics.get(self._topic)
        return None if topic is None else topic.time

"""The pace at which a follower that is behind is answered, so that publishes hardly wait for it."""

from __future__ import annotations

from typing import Final

from penstock.core.units import MILLISECOND, SECOND
from penstock.replication.feed import NBYTES_MAX

GENTLE_NBYTES: Final = 512 * 1024
"""The least room of an answer at the slow pace, which takes a millisecond or two to make."""
BUSY_PER_S: Final = 1000
"""Messages a second at which publishes are spared; at lower rates hardly one meets a copy."""
WINDOW_NS: Final = 100 * MILLISECOND
"""The time over which these are counted."""


class Pace:
    """The pace of one follower, by its requests and the sizes of their answers."""

    def __init__(self) -> None:
        self._is_busy = False
        self._since = 0
        self._head_then = 0
        self._lag: int | None = None
        self._sent = 0

    def room(self, now: int, head: int, lag: int) -> int | None:
        """The bytes for the answer to a request, which is then to wait for the next tick.

        None: as many as were asked for, at once. ``now`` is of the monotonic clock in ns, ``head``
        the messages that were ever published here, ``lag`` the bytes that the follower lacks.
        """
        came = 0 if self._lag is None else max(0, lag - self._lag + self._sent)
        self._lag, self._sent = lag, 0
        elapsed = now - self._since
        if elapsed >= WINDOW_NS:
            is_first = not self._since
            self._is_busy = (
                not is_first and (head - self._head_then) * SECOND >= BUSY_PER_S * elapsed
            )
            self._since, self._head_then = now, head
        # Twice what has come since the last request: with less, a follower would never catch up.
        room = max(GENTLE_NBYTES, 2 * came)
        return room if self._is_busy and room <= NBYTES_MAX else None

    def sent(self, nbytes: int) -> None:
        """Take note of the size of the last request's answer."""
        self._sent = nbytes

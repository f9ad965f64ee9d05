"""The lag of a copy: how long its primary may have acknowledged messages that are not here.

An answer that was all there was says that everything was here when it was made. Since then the
primary may have acknowledged more, up to now; or up to the moment from which its port was found
closed each time, as a process that is gone acknowledges nothing. A primary that is merely silent
may be cut off, and at work.
"""

from __future__ import annotations

from typing import Final

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND

UNSEEN_NS: Final = 1500 * MILLISECOND
"""The most time between two looks at a closed port between which it counts as closed."""
FRESH_NS: Final = 3 * SECOND
"""The age up to which an answer counts as new."""


class Lag:
    """The times, of the monotonic clock, at which a follower heard from its primary."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._whole_ns: int | None = None
        self._heard_ns: int | None = None
        self._closed_ns: int | None = None
        self._looked_ns = 0

    def heard(self, made_ns: int, *, is_whole: bool) -> None:
        """Note an answer that was made at this time or later, and whether it was all there was."""
        self._closed_ns = None
        self._heard_ns = made_ns
        if is_whole:
            self._whole_ns = made_ns

    def failed(self, *, is_closed: bool) -> None:
        """Note that the primary did not answer, and whether its port was closed."""
        now = self._clock.monotonic_ns()
        if not is_closed:
            self._closed_ns = None
            return
        if not self._is_closed(now):
            self._closed_ns = now
        self._looked_ns = now

    def _is_closed(self, now: int) -> bool:
        return self._closed_ns is not None and now - self._looked_ns <= UNSEEN_NS

    @property
    def _until_ns(self) -> int:
        """The time up to which the primary may have acknowledged anything."""
        now = self._clock.monotonic_ns()
        return self._closed_ns if self._closed_ns is not None and self._is_closed(now) else now

    @property
    def ns(self) -> int | None:
        """The time in which it may have acknowledged what is not here; None: not known."""
        return None if self._whole_ns is None else self._until_ns - self._whole_ns

    @property
    def silent_ns(self) -> int | None:
        """The time in which it may have acknowledged what this node has not heard of; None: not
        known.
        """
        return None if self._heard_ns is None else self._until_ns - self._heard_ns

    @property
    def behind_ns(self) -> int | None:
        """The age of the last answer that was all there was; None: there was none."""
        return None if self._whole_ns is None else self._clock.monotonic_ns() - self._whole_ns

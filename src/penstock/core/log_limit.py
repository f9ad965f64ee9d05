"""A rate limit for log lines that a client can cause at will."""

from __future__ import annotations

from typing import Final

from penstock.core.units import SECOND

LINES: Final = 100
WINDOW_NS: Final = 10 * SECOND


class LogLimit:
    """A limit of ``LINES`` log lines in each window of time, with a count of those it keeps
    back.
    """

    __slots__ = ("_end", "_left", "kept_back")

    def __init__(self) -> None:
        self._end = 0
        self._left = 0
        self.kept_back = 0

    def take_line(self, now_ns: int) -> bool:
        """Take a line of those that may be written at this time of the monotonic clock; False if
        none is left.
        """
        if now_ns >= self._end:
            self._end = now_ns + WINDOW_NS
            self._left = LINES
        if self._left:
            self._left -= 1
            return True
        self.kept_back += 1
        return False

    def take_kept_back(self) -> int:
        """The number of lines kept back since the last call."""
        count, self.kept_back = self.kept_back, 0
        return count

    def told_kept_back(self) -> str:
        """The end of a line, which tells how many before it were kept back; empty for 0."""
        count = self.take_kept_back()
        return f" ({count} lines like this were kept back)" if count else ""

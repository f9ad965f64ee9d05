"""Heads that have come before: a client repeats itself, and is understood at once then.

Reading the head of a small request costs more than all the rest of it. The same bytes mean the
same, on any connection, so a head that led to a complete request is kept, with where it led.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.net.http.server.head import Head
    from penstock.net.http.server.route import Route

HEAD_END: Final = b"\r\n\r\n"
LONGEST: Final = 512
"""Bytes of a head that is kept; one with cookies or tokens is longer and does not come often."""
MOST: Final = 1024


class Known(NamedTuple):
    """A head, and what it stands for: its route, the path's parameter, the size of its body, and
    the topic if it is a plain publish.
    """

    head: Head
    route: Route
    param: str
    body_size: int
    topic: str | None = None


class KnownHeads:
    """The heads of one router's requests, by their bytes up to the empty line; a bounded number."""

    __slots__ = ("_heads", "find")

    def __init__(self) -> None:
        self._heads: dict[bytes, Known] = {}
        self.find = self._heads.get
        """The ``Known`` of a head's bytes, or None."""

    def learn(self, data: bytes, known: Known) -> None:
        """``data`` was one request, whole and alone, and this is what it was."""
        head_size = len(data) - known.body_size
        if data.find(HEAD_END, 0, LONGEST) + len(HEAD_END) != head_size:
            return
        if len(self._heads) >= MOST:  # clients that never repeat themselves
            self._heads.clear()
        self._heads[data[:head_size]] = known

"""A short time without sleep for an event loop whose peer is about to answer."""

from __future__ import annotations

import asyncio
from typing import Final

PASSES: Final = 16
"""The passes of the loop before it may sleep again, some 12 microseconds with uvloop: two producers
on the same machine then find it awake. That is the price of a message at a rate at which nothing
comes so soon; 32 passes cost 25 (bench/README.md)."""
WORTH: Final = 3
"""The times that may run out for each that ended because something came."""
CREDIT: Final = 32
"""The most times that may run out in a row before the loop rests."""
TRIED_EVERY: Final = 16
"""The messages behind which a resting loop tries once: peers may have become faster."""


class Wakefulness:
    """Empty passes of the event loop, each of which looks at the sockets without waiting.

    It rests while they find nothing: the peers are slower then, or need the processor themselves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = 0
        self._credit = CREDIT
        self._rested = 0

    def extend(self) -> None:
        """Keep the loop from sleeping for ``PASSES`` passes from now, unless that does not pay."""
        if self._left:
            self._credit = min(CREDIT, self._credit + WORTH)
        elif self._credit or self._try_again():
            self._loop.call_soon(self._pass)
        else:
            return
        self._left = PASSES

    def _try_again(self) -> bool:
        """Count a message behind which the loop rests; True if it is to try at this one."""
        self._rested = (self._rested + 1) % TRIED_EVERY
        return not self._rested

    def _pass(self) -> None:
        self._left -= 1
        if self._left:
            self._loop.call_soon(self._pass)
        else:
            self._credit = max(0, self._credit - 1)

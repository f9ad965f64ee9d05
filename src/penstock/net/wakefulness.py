"""A short time without sleep for an event loop whose peer is about to answer."""

from __future__ import annotations

import asyncio
import select
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK

LOOK_NS: Final = 50_000
"""The longest look, in nanoseconds: a producer on the same machine comes back within it. To sleep
and be woken costs both sides more than the message does."""
WORTH: Final = 3
"""The looks that may find nothing for each that finds something."""
CREDIT: Final = 32
"""The most looks in a row that may find nothing before the loop rests."""
TRIED_EVERY: Final = 16
"""The messages behind which a resting loop looks once: peers may have become faster."""


class Wakefulness:
    """Looks at the event loop's sockets without sleep, after a message whose sender waits.

    It rests while they find nothing: the peers are slower then, or need the processor themselves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll: select.poll | None = None
        # uvloop's; other loops sleep.
        descriptor = getattr(loop, "_get_backend_id", None)
        if descriptor is not None:
            self._poll = select.poll()
            self._poll.register(descriptor(), select.POLLIN)
        self._looks_soon = False
        self._credit = CREDIT
        self._rested = 0

    def extend(self) -> None:
        """Look before the loop sleeps, unless that does not pay."""
        if self._poll is not None and not self._looks_soon and (self._credit or self._try_again()):
            self._looks_soon = True
            # Behind the writes of this pass.
            self._loop.call_soon(self._look)

    def _try_again(self) -> bool:
        """Count a message behind which the loop rests; True if it is to try at this one."""
        self._rested = (self._rested + 1) % TRIED_EVERY
        return not self._rested

    def _look(self) -> None:
        assert self._poll is not None
        self._looks_soon = False
        poll, now = self._poll.poll, SYSTEM_CLOCK.monotonic_ns
        end = now() + LOOK_NS
        while not poll(0):
            if now() >= end:
                self._credit = max(0, self._credit - 1)
                return
        self._credit = min(CREDIT, self._credit + WORTH)

"""A short time without sleep for an event loop whose peer is about to answer."""

from __future__ import annotations

import asyncio
from typing import Final

PASSES: Final = 16
"""The passes of the loop before it may sleep again, some 12 microseconds with uvloop: two producers
on the same machine then find it awake. That is what a message costs more at a steady rate below
theirs; 32 passes cost 25 (bench/README.md)."""


class Wakefulness:
    """Empty passes of the event loop, each of which looks at the sockets without waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = 0

    def extend(self) -> None:
        """Keep the loop from sleeping for ``PASSES`` passes from now."""
        if not self._left:
            self._loop.call_soon(self._pass)
        self._left = PASSES

    def _pass(self) -> None:
        self._left -= 1
        if self._left:
            self._loop.call_soon(self._pass)

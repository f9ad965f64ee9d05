"""Detection of a node that does not take what is sent to it, and the end of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Outflow:
    """A transport's writer that calls ``on_stall`` when nothing was taken for ``seconds``."""

    def __init__(self, seconds: float, on_stall: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._on_stall = on_stall
        self._written = 0
        self._taken = 0
        self._watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Write there from now on, and be called for every byte that is not taken at once."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def write(self, data: bytes) -> None:
        """Send it, unless the connection is closing."""
        if self._transport is not None and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    def pause(self) -> None:
        """The node does not take all that was sent."""
        self._look_later()

    def resume(self) -> None:
        """Stop the timer: the transport has taken all, or the connection is gone."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def stop(self) -> None:
        """The connection is gone."""
        self._transport = None
        self.resume()

    def _look_later(self) -> None:
        self._taken = self._taken_by_now()
        self._watch = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def _look(self) -> None:
        if self._taken_by_now() == self._taken:
            self._on_stall(f"the server took nothing of what was sent for {self._seconds:g} s")
        else:
            self._look_later()

    def _taken_by_now(self) -> int:
        left = self._transport.get_write_buffer_size() if self._transport else 0
        return self._written - left

"""The output to one client: its message frames, and when all is sent (NSQ spec 1.9).

Message frames wait until the buffer is full, the client takes no more, or its time is over; any
other frame goes out at once and takes the waiting ones along.
"""

from __future__ import annotations

import asyncio
import struct

import numpy as np

from penstock.broker.channels.consumer import Delivery
from penstock.broker.dialects import nsq_view
from penstock.core.units import SECOND
from penstock.storage.batch import Buffer

_ATTEMPTS_AT = 16
_attempts = struct.Struct(">H")


class Outbox:
    """The output buffer of a connection. ``size`` in bytes, ``timeout`` in ns (0: no timed
    flush).
    """

    __slots__ = ("_flushes_soon", "_loop", "_nbytes", "_pending", "_timer", "_transport", "size",
                 "timeout")  # fmt: skip

    def __init__(self, transport: asyncio.Transport, size: int, timeout: int) -> None:
        self.size = size
        self.timeout = timeout
        self._transport = transport
        self._pending: list[Buffer] = []
        self._nbytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flushes_soon = False
        self._loop = asyncio.get_running_loop()

    def use(self, transport: asyncio.Transport) -> None:
        """From now on write there; what waits goes out to where it was meant for."""
        self.flush()
        self._transport = transport

    def send(self, frame: bytes) -> None:
        """A response or error: flushes all."""
        if self._pending:
            self._pending.append(frame)
            self.flush()
        else:
            self._transport.write(frame)

    def answer(self, frame: bytes, more_owed: bool) -> None:
        """The answer to a publish. With ``more_owed`` it waits for those that follow it, as a
        commit gives them, but not for long: each write costs as much as publishing does.
        """
        if not more_owed:
            self.send(frame)
            return
        self._pending.append(frame)
        if not self._flushes_soon:
            self._flushes_soon = True
            self._loop.call_soon(self._flush_soon)

    def buffer(self, frames: list[Buffer], nbytes: int, more_to_come: bool) -> None:
        """Messages; ``more_to_come`` tells that the client has room for others."""
        self._pending += frames
        self._nbytes += nbytes
        # Go's buffer overflows at exactly its size and keeps the end of a frame (NSQ spec 1.9);
        # here whole frames go out.
        if not more_to_come or self._nbytes >= self.size:
            self.flush()
        # Go has a ticker that runs freely, so a message waits up to the time-out; this is a timer
        # that begins with the first one that waits (NSQ spec 1.9).
        elif self.timeout and self._timer is None:
            self._timer = self._loop.call_later(self.timeout / SECOND, self.flush)

    def flush(self) -> None:
        """Send all that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            pending, self._pending, self._nbytes = self._pending, [], 0
            if len(pending) == 1:
                self._transport.write(pending[0])
            else:
                self._transport.writelines(pending)

    def _flush_soon(self) -> None:
        self._flushes_soon = False
        self.flush()

    def close(self) -> None:
        """Drop what waits and the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._pending.clear()


def frames_of(delivery: Delivery) -> Buffer:
    """The message frames of a delivery: a slice of the batch, copied only to tell more attempts."""
    batch, first, next_ = nsq_view(delivery.batch), delivery.first, delivery.next
    frames = batch.slice(first, next_)
    attempts = delivery.attempts
    if attempts == 1:
        return frames
    # The slice is the batch's, which other channels deliver too.
    copy = bytearray(frames)
    if next_ - first == 1:
        _attempts.pack_into(copy, _ATTEMPTS_AT, attempts)
        return copy
    start = first - batch.first_offset
    positions = batch.positions()[start : start + next_ - first]
    places = positions - positions[0] + _ATTEMPTS_AT
    view = np.frombuffer(copy, np.uint8)
    view[places] = attempts >> 8
    view[places + 1] = attempts & 0xFF
    return copy

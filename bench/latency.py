"""How long a message takes from its publisher to its consumer, at a rate that nobody is short of.

The publisher sends one PUB at each tick of a fixed schedule and writes the moment of sending into
the body; the consumer compares that with the moment its read returned. Both are processes of this
machine, so they share one monotonic clock. What both of them add, waking up, is the same for every
server.
"""

from __future__ import annotations

import socket
import struct
import time
from selectors import EVENT_READ, DefaultSelector

import numpy as np
import payloads
from clients import FRAME_HEAD_BYTES, Share, Wait, cpu_seconds
from wires import PLAIN, READ_BYTES, SILENCE_S_MAX, Wire

_STAMP = struct.Struct(">q")


def publish_paced(
    address: str, topic: str, size: int, rate: int, messages: int, wait: Wait
) -> Share:
    """One PUB at a time, `rate` a second; a late one makes no other late."""
    wire = Wire(address)
    command = payloads.pub(topic, bytes(size))
    head, rest = command[:-size], bytes(size - _STAMP.size)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for number in range(messages):
        pause = start + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        wire.socket.sendall(head + _STAMP.pack(time.monotonic_ns()) + rest)
        wire.expect_oks(1)
    end = time.monotonic()
    wire.close()
    return Share(0, start, end, cpu_seconds() - cpu)


def consume_timed(
    address: str,
    topic: str,
    connections: int,
    rdy: int,
    features: dict[str, object],
    messages: int,
    wait: Wait,
) -> Share:
    """Receive and finish this many messages over connections to one channel; their delays."""
    wires = [Wire(address, PLAIN, features) for _ in range(connections)]
    selector = DefaultSelector()
    for wire in wires:
        wire.send(b"SUB %s ch\n" % topic.encode())
        wire.expect_oks(1)
        wire.send(b"RDY %d\n" % rdy)
        selector.register(wire, EVENT_READ, _Ear(wire.socket))
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    delays: list[int] = []
    while len(delays) < messages:
        ready = selector.select(SILENCE_S_MAX)
        if not ready:
            raise RuntimeError(f"silence after {len(delays)} of {messages} messages")
        for key, _ in ready:
            delays += key.data.read()
    end = time.monotonic()
    for wire in wires:
        wire.close()
    return Share(len(delays), start, end, cpu_seconds() - cpu, np.array(delays))


class _Ear:
    """One consuming connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._data = b""

    def read(self) -> list[int]:
        """One read: finishes its messages; the delay of each in ns."""
        self._data += self._socket.recv(READ_BYTES)
        now = time.monotonic_ns()
        finishes, delays = [], []
        while (frame := self._next_frame()) is not None:
            if frame[7] == 2:
                finishes.append(b"FIN %b\n" % frame[18:FRAME_HEAD_BYTES])
                delays.append(now - _STAMP.unpack_from(frame, FRAME_HEAD_BYTES)[0])
        self._socket.sendall(b"".join(finishes))
        return delays

    def _next_frame(self) -> bytes | None:
        if len(self._data) < 4:
            return None
        end = 4 + int.from_bytes(self._data[:4], "big")
        if len(self._data) < end:
            return None
        frame, self._data = self._data[:end], self._data[end:]
        return frame

"""NSQ clients for benchmarks: as little work per message as Python allows.

The broker is to be measured, not the client: publishers send prebuilt payloads and count `OK`s;
the consumer finds frames and writes FIN lines for a whole read at once with numpy. Each function
runs in a process of its own, waits for the common start and returns its `Share`.
"""

from __future__ import annotations

import multiprocessing
import resource
import selectors
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wires import OK_FRAME, READ_BYTES, SILENCE_S_MAX, Layers, Wire, plain_socket

FRAME_HEAD_BYTES = 34
"""Size, type, timestamp, attempts and id: what comes before the body."""

TALLY_S = 0.05
"""Seconds after which a consumer looks whether others have received the rest."""

Wait = Callable[[], object]


@dataclass(frozen=True)
class Share:
    """What one client process did: messages, wall clock of its start and end, its CPU seconds.

    ``delays_ns``: from publish to consumer, of every message, where that was measured.
    """

    messages: int
    start: float
    end: float
    cpu_s: float
    delays_ns: npt.NDArray[np.int64] | None = None


def cpu_seconds() -> float:
    """CPU time of this process, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def publish(
    address: str,
    layers: Layers,
    payload: bytes,
    answers: int,
    messages: int,
    rounds: int,
    wait: Wait,
) -> Share:
    """Send the prepared payload and wait for its OKs, `rounds` times; `messages` counts a round."""
    wire = Wire(address, layers)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for _ in range(rounds):
        wire.send_prepared(payload)
        wire.expect_oks(answers)
    end = time.monotonic()
    wire.close()
    return Share(messages * rounds, start, end, cpu_seconds() - cpu)


def ask_repeatedly(
    address: str,
    payload: bytes,
    messages: int,
    http: bool,
    connections: int,
    seconds: float,
    wait: Wait,
) -> Share:
    """Each connection sends the request and waits for its answer, for this long."""
    sockets = [plain_socket(address) if http else Wire(address).socket for _ in range(connections)]
    selector = selectors.DefaultSelector()
    for one in sockets:
        selector.register(one, selectors.EVENT_READ)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for one in sockets:
        one.sendall(payload)
    answered, now = 0, start
    while now - start < seconds:
        ready = selector.select(SILENCE_S_MAX)
        for key, _ in ready:
            answer = key.fileobj.recv(512)  # type: ignore[union-attr]
            if not (answer == OK_FRAME or (http and answer.startswith(b"HTTP/1.1 200"))):
                raise RuntimeError(f"nsqd answered {answer!r}")
            key.fileobj.sendall(payload)  # type: ignore[union-attr]
        answered += len(ready)
        now = time.monotonic()
    for one in sockets:
        one.close()
    return Share(answered * messages, start, now, cpu_seconds() - cpu)


class Tally:
    """Messages received so far, by one process or by several that share a channel."""

    def __init__(self) -> None:
        self._received = multiprocessing.get_context("fork").Value("q", 0)

    @property
    def received(self) -> int:
        return int(self._received.value)

    def add(self, messages: int) -> None:
        """Count messages of this process."""
        with self._received.get_lock():
            self._received.value += messages


def consume(
    doors: Sequence[tuple[str, str]],
    layers: Layers,
    topic: str,
    rdy: int,
    messages: int,
    wait: Wait,
    tally: Tally | None = None,
) -> Share:
    """Receive and finish messages over a connection for each door, an address and a channel, until
    this process, or all that have the tally, had as many as ``messages``.
    """
    tally = tally or Tally()
    readers = [_Reader(Wire(address, layers, {}), topic, channel) for address, channel in doors]
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.wire, selectors.EVENT_READ, reader)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for reader in readers:
        reader.wire.send(b"RDY %d\n" % rdy)
    received, end = 0, start
    while tally.received < messages:
        count = sum(key.data.read() for key, _ in selector.select(TALLY_S))
        tally.add(count)
        received += count
        if count:
            end = time.monotonic()
        elif time.monotonic() - end > SILENCE_S_MAX:
            raise RuntimeError(f"silence after {tally.received} of {messages} messages")
    for reader in readers:
        reader.wire.close()
    return Share(received, start, end, cpu_seconds() - cpu)


class _Reader:
    """One consuming connection: a buffer, and FIN lines made of it."""

    def __init__(self, wire: Wire, topic: str, channel: str) -> None:
        self.wire = wire
        wire.send(b"SUB %s %s\n" % (topic.encode(), channel.encode()))
        wire.expect_oks(1)
        self.buffer = bytearray(READ_BYTES)
        self.filled = 0
        self.lines: npt.NDArray[np.uint8] = np.zeros((0, 21), np.uint8)

    def read(self) -> int:
        """One read: finish all messages which are complete by now; returns their number."""
        self.filled = self.wire.receive_into(self.buffer, self.filled)
        starts, used = self._frames()
        if len(starts):
            self.wire.send(self._finish(starts))
        rest = self.filled - used
        self.buffer[:rest] = self.buffer[used : self.filled]
        self.filled = rest
        return len(starts)

    def _frames(self) -> tuple[npt.NDArray[np.int64], int]:
        """Positions of the complete message frames, and the bytes all complete frames take."""
        if self.filled < FRAME_HEAD_BYTES:
            return np.zeros(0, np.int64), 0
        stride = 4 + struct.unpack_from(">I", self.buffer)[0]
        count = self.filled // stride
        rows = np.frombuffer(self.buffer, np.uint8, count * stride).reshape(count, stride)
        if count and (rows[:, :8] == rows[0, :8]).all() and rows[0, 7] == 2:
            return np.arange(count, dtype=np.int64) * stride, count * stride
        return self._scan()

    def _scan(self) -> tuple[npt.NDArray[np.int64], int]:
        starts, position = [], 0
        unpack, buffer, last = struct.Struct(">II").unpack_from, self.buffer, self.filled - 8
        while position <= last:
            size, kind = unpack(buffer, position)
            if position + 4 + size > self.filled:
                break
            if kind == 2:
                starts.append(position)
            elif kind == 1:
                raise RuntimeError(bytes(buffer[position + 8 : position + 4 + size]).decode())
            position += 4 + size
        return np.array(starts, np.int64), position

    def _finish(self, starts: npt.NDArray[np.int64]) -> memoryview:
        count = len(starts)
        if count > len(self.lines):
            line = np.frombuffer(b"FIN 0123456789abcdef\n", np.uint8)
            self.lines = np.tile(line, (count * 2, 1))
        ids = np.frombuffer(self.buffer, np.uint8)[starts[:, None] + np.arange(18, 34)]
        self.lines[:count, 4:20] = ids
        return self.lines[:count].data.cast("B")


def spread(total: int, parts: int) -> Iterator[int]:
    """Split a number into nearly equal parts."""
    for index in range(parts):
        yield total * (index + 1) // parts - total * index // parts

"""NSQ clients for benchmarks: as little work per message as Python allows.

The broker is to be measured, not the client: publishers send prebuilt payloads and count `OK`s;
the consumer finds frames and writes FIN lines for a whole read at once with numpy. Each function
runs in a process of its own, waits for the common start and returns (messages, start, end, CPU s).
"""

from __future__ import annotations

import json
import random
import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

OK_FRAME = b"\x00\x00\x00\x06\x00\x00\x00\x00OK"
SILENCE_S_MAX = 30.0
READ_BYTES = 1 << 20
FRAME_HEAD_BYTES = 34
"""Size, type, timestamp, attempts and id: what comes before the body."""

Wait = Callable[[], object]


@dataclass(frozen=True)
class Share:
    """What one client process did: messages, wall clock of its start and end, its CPU seconds."""

    messages: int
    start: float
    end: float
    cpu_s: float


def cpu_seconds() -> float:
    """CPU time of this process, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def sizes(mixed: bool, count: int, size: int) -> list[int]:
    """Body sizes: all equal, or spread evenly over a tenth to the double, seeded."""
    if not mixed:
        return [size] * count
    rng = random.Random(20240229)
    return [rng.randint(max(1, size // 10), size * 2) for _ in range(count)]


def mpub_payload(topic: str, bodies: list[int]) -> bytes:
    """One MPUB command with bodies of these sizes."""
    parts = [struct.pack(">i", len(bodies))]
    parts += [struct.pack(">i", size) + b"x" * size for size in bodies]
    body = b"".join(parts)
    return b"MPUB %s\n" % topic.encode() + struct.pack(">i", len(body)) + body


def pub_payload(topic: str, size: int) -> bytes:
    """One PUB command."""
    return b"PUB %s\n" % topic.encode() + struct.pack(">i", size) + b"x" * size


def http_payload(topic: str, size: int) -> bytes:
    """One POST /pub of a keep-alive connection."""
    head = f"POST /pub?topic={topic} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + b"x" * size


def connect(address: str, features: dict[str, object] | None = None) -> socket.socket:
    """A TCP connection that has said IDENTIFY; without features it has no heartbeats."""
    connection = plain(address)
    body = json.dumps(features or {"heartbeat_interval": -1}).encode()
    connection.sendall(b"  V2IDENTIFY\n" + struct.pack(">i", len(body)) + body)
    expect_ok(connection.recv(4096))
    return connection


def plain(address: str) -> socket.socket:
    """A connected socket without delay."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SILENCE_S_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def expect_ok(answer: bytes) -> None:
    """Raises RuntimeError for anything but one OK frame."""
    if answer != OK_FRAME:
        raise RuntimeError(f"nsqd answered {answer!r}")


def publish_batches(address: str, payload: bytes, batch: int, rounds: int, wait: Wait) -> Share:
    """Send the payload, wait for its OK, `rounds` times."""
    connection = connect(address)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for _ in range(rounds):
        connection.sendall(payload)
        if connection.recv(64) != OK_FRAME:
            raise RuntimeError("nsqd refused a batch")
    end = time.monotonic()
    connection.close()
    return Share(batch * rounds, start, end, cpu_seconds() - cpu)


def ask_repeatedly(
    address: str, payload: bytes, http: bool, connections: int, seconds: float, wait: Wait
) -> Share:
    """Each connection sends the request and waits for its answer, for this long."""
    sockets = [plain(address) if http else connect(address) for _ in range(connections)]
    selector = selectors.DefaultSelector()
    for one in sockets:
        selector.register(one, selectors.EVENT_READ)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for one in sockets:
        one.send(payload)
    answered, now = 0, start
    while now - start < seconds:
        ready = selector.select(SILENCE_S_MAX)
        for key, _ in ready:
            answer = key.fileobj.recv(512)  # type: ignore[union-attr]
            if not (answer == OK_FRAME or (http and answer.startswith(b"HTTP/1.1 200"))):
                raise RuntimeError(f"nsqd answered {answer!r}")
            key.fileobj.send(payload)  # type: ignore[union-attr]
        answered += len(ready)
        now = time.monotonic()
    for one in sockets:
        one.close()
    return Share(answered, start, now, cpu_seconds() - cpu)


def consume(
    address: str, topic: str, connections: int, rdy: int, messages: int, wait: Wait
) -> Share:
    """Receive and finish this many messages over some connections."""
    readers = [_Reader(address, topic, rdy) for _ in range(connections)]
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.connection, selectors.EVENT_READ, reader)
    wait()
    cpu, start = cpu_seconds(), time.monotonic()
    for reader in readers:
        reader.connection.sendall(b"RDY %d\n" % rdy)
    received = 0
    while received < messages:
        ready = selector.select(SILENCE_S_MAX)
        if not ready:
            raise RuntimeError(f"silence after {received} of {messages} messages")
        received += sum(key.data.read() for key, _ in ready)
    end = time.monotonic()
    for reader in readers:
        reader.connection.close()
    return Share(received, start, end, cpu_seconds() - cpu)


class _Reader:
    """One consuming connection: a buffer, and FIN lines made of it."""

    def __init__(self, address: str, topic: str, rdy: int) -> None:
        self.connection = connect(address, {"client_id": "bench"})
        self.connection.sendall(b"SUB %s ch\n" % topic.encode())
        expect_ok(self.connection.recv(4096))
        self.buffer = bytearray(READ_BYTES)
        self.filled = 0
        self.lines: npt.NDArray[np.uint8] = np.zeros((0, 21), np.uint8)

    def read(self) -> int:
        """One read: finish all messages which are complete by now; returns their number."""
        view = memoryview(self.buffer)
        got = self.connection.recv_into(view[self.filled :])
        if not got:
            raise RuntimeError("nsqd closed the connection")
        self.filled += got
        starts, used = self._frames()
        if len(starts):
            self.connection.sendall(self._finish(starts))
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
        return self.lines[:count].data


def spread(total: int, parts: int) -> Iterator[int]:
    """Split a number into nearly equal parts."""
    for index in range(parts):
        yield total * (index + 1) // parts - total * index // parts

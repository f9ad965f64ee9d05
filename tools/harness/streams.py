"""Whole pieces of data from a socket, of which one read may return only a part."""

from __future__ import annotations

import socket
import struct


def exactly(sock: socket.socket, count: int) -> bytes:
    """Read this number of bytes. Raises ConnectionError if the other side ends before."""
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionError(f"the connection ended, {len(data)} of {count} bytes had come")
        data += part
    return data


def nsq_frame(sock: socket.socket) -> tuple[int, bytes]:
    """Type and data of the next frame of an nsqd."""
    size, kind = struct.unpack(">ii", exactly(sock, 8))
    return kind, exactly(sock, size - 4)

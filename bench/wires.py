"""Connections to nsqd with what may lie between: TLS, and snappy or deflate (NSQ spec 1.5).

A publisher sends bytes that were compressed beforehand (`Layers.prepare`), so that the generator
spends nothing on it; a consumer compresses its FIN lines and decompresses what comes.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import cramjam

OK_FRAME = b"\x00\x00\x00\x06\x00\x00\x00\x00OK"
SILENCE_S_MAX = 30.0
READ_BYTES = 1 << 20
_SNAPPY_START = b"\xff\x06\x00\x00sNaPpY"
_RAW_DEFLATE = -15
_FEATURES: dict[str, object] = {"client_id": "bench", "feature_negotiation": True}


class _Codec(Protocol):
    """One layer of one connection, both ways."""

    def encode(self, data: bytes | memoryview) -> bytes | memoryview: ...

    def decode(self, data: bytes) -> bytes: ...


class _Plain:
    def encode(self, data: bytes | memoryview) -> bytes | memoryview:
        return data

    def decode(self, data: bytes) -> bytes:
        return data


class _Snappy:
    """The framing format: chunks behind a start, which may come again before every one."""

    def __init__(self) -> None:
        self._rest = b""

    def encode(self, data: bytes | memoryview) -> bytes:
        return bytes(cramjam.snappy.compress(data))

    def decode(self, data: bytes) -> bytes:
        data = self._rest + data
        end = 0
        while end + 4 <= len(data):
            next_ = end + 4 + int.from_bytes(data[end + 1 : end + 4], "little")
            if next_ > len(data):
                break
            end = next_
        self._rest = data[end:]
        return bytes(cramjam.snappy.decompress(_SNAPPY_START + data[:end])) if end else b""


class _Deflate:
    """One raw stream each way; a full flush forgets what was sent, so the bytes can be repeated."""

    def __init__(self) -> None:
        self._out = zlib.compressobj(1, zlib.DEFLATED, _RAW_DEFLATE)
        self._in = zlib.decompressobj(_RAW_DEFLATE)

    def encode(self, data: bytes | memoryview) -> bytes:
        return self._out.compress(data) + self._out.flush(zlib.Z_FULL_FLUSH)

    def decode(self, data: bytes) -> bytes:
        return self._in.decompress(data)


class _Tls:
    """TLS over memory: one read of the socket gives all the records that are there."""

    def __init__(self) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)

    def shake_hands(self, connection: socket.socket) -> None:
        """Say hello and hear it."""
        while True:
            try:
                self._tls.do_handshake()
                return connection.sendall(self._out.read())
            except ssl.SSLWantReadError:
                connection.sendall(self._out.read())
                self._in.write(connection.recv(READ_BYTES))

    def encode(self, data: bytes | memoryview) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def decode(self, data: bytes) -> bytes:
        self._in.write(data)
        records = []
        with suppress(ssl.SSLWantReadError):
            while True:
                records.append(self._tls.read(READ_BYTES))
        return b"".join(records)


_CODECS: dict[str, type[_Codec]] = {"": _Plain, "snappy": _Snappy, "deflate": _Deflate}


@dataclass(frozen=True)
class Layers:
    """What lies between a client and nsqd; ``compression``: ``snappy``, ``deflate`` or nothing."""

    tls: bool = False
    compression: str = ""

    def prepare(self, payload: bytes) -> bytes:
        """The payload as it can be sent again and again on one connection."""
        return bytes(_CODECS[self.compression]().encode(payload))


PLAIN = Layers()


def plain_socket(address: str) -> socket.socket:
    """A connected socket without delay."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SILENCE_S_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Wire:
    """A TCP connection that has said IDENTIFY, through its layers."""

    def __init__(
        self, address: str, layers: Layers = PLAIN, features: dict[str, object] | None = None
    ) -> None:
        """Without ``features`` it publishes: it has no heartbeats."""
        self.socket = plain_socket(address)
        self._outer: _Codec = _Plain()
        self._inner: _Codec = _Plain()
        self._ahead = b""  # has come out of the outer layer already
        self._is_plain = layers == PLAIN
        wanted = _FEATURES | ({"heartbeat_interval": -1} if features is None else features)
        if layers.tls:
            wanted["tls_v1"] = True
        if layers.compression:
            wanted[layers.compression] = True
        body = json.dumps(wanted).encode()
        self.socket.sendall(b"  V2IDENTIFY\n" + struct.pack(">i", len(body)) + body)
        self._start(layers)

    def _start(self, layers: Layers) -> None:
        size, kind = struct.unpack(">ii", self._exactly(8))
        data = self._exactly(size - 4)
        if kind != 0:
            raise RuntimeError(f"nsqd answered {data!r}")
        features = json.loads(data)
        if layers.tls:
            if not features["tls_v1"]:
                raise RuntimeError("nsqd does not speak TLS")
            self._outer = tls = _Tls()
            tls.shake_hands(self.socket)
            self._tls_ok()
        if layers.compression:
            if not features[layers.compression]:
                raise RuntimeError(f"nsqd does not speak {layers.compression}")
            self._inner = _CODECS[layers.compression]()
            self.expect_oks(1)

    def _tls_ok(self) -> None:
        """The OK inside TLS; that of a compression may have come along."""
        data = b""
        while len(data) < len(OK_FRAME):
            data += self._unwrapped()
        if not data.startswith(OK_FRAME):
            raise RuntimeError(f"nsqd answered {data[:100]!r}")
        self._ahead = data[len(OK_FRAME) :]

    def _exactly(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            if not (more := self.socket.recv(nbytes - len(data))):
                raise RuntimeError("nsqd closed the connection")
            data += more
        return data

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def send(self, data: bytes | memoryview) -> None:
        """Commands, compressed here."""
        self.socket.sendall(self._outer.encode(self._inner.encode(data)))

    def send_prepared(self, data: bytes) -> None:
        """Commands as `Layers.prepare` made them."""
        self.socket.sendall(self._outer.encode(data))

    def expect_oks(self, count: int) -> None:
        """Wait for so many OK frames, and nothing else. Raises RuntimeError."""
        left = count * len(OK_FRAME)
        while left:
            answer = self._decoded()
            left -= len(answer)
            if left < 0 or answer not in OK_FRAME * (count + 1):
                raise RuntimeError(f"nsqd answered {answer[:100]!r}")

    def receive_into(self, buffer: bytearray, filled: int) -> int:
        """One read, decoded, behind the first ``filled`` bytes; how many are filled then."""
        if self._is_plain:
            got = self.socket.recv_into(memoryview(buffer)[filled:])
            if not got:
                raise RuntimeError("nsqd closed the connection")
            return filled + got
        data = self._decoded()
        buffer[filled : filled + len(data)] = data
        return filled + len(data)

    def _decoded(self) -> bytes:
        data, self._ahead = self._ahead or self._unwrapped(), b""
        return self._inner.decode(data)

    def _unwrapped(self) -> bytes:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise RuntimeError("nsqd closed the connection")
        return self._outer.decode(data)

    def close(self) -> None:
        """Without a word."""
        self.socket.close()

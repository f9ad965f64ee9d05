"""A few compressed bytes that become very many: they are taken a piece at a time, if at all."""

from __future__ import annotations

import json
import socket
import struct
import zlib

import pytest

from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import SnappyLayer

from .conftest import ask, publish, read_frame, read_to_end, running

MB = 1024 * 1024
BOMB = 64 * MB
"""Bytes that a bomb decodes to, unless nsqd ends the connection before."""
GROWTH_MAX = 32 * MB


def compressed_connection(sock: socket.socket, layer: str) -> None:
    """Ask for the layer, and read the OK that comes through it."""
    body = json.dumps({"feature_negotiation": True, layer: True}).encode()
    answer = json.loads(ask(sock, b"IDENTIFY\n" + struct.pack(">i", len(body)) + body))
    assert answer[layer] is True
    assert sock.recv(100)


def explode(sock: socket.socket, layer: str, start: bytes, filling: bytes, size: int) -> None:
    """Send ``start`` and then so much of ``filling``; the connection may end before."""
    coder = DeflateLayer(9) if layer == "deflate" else SnappyLayer()
    try:
        sock.sendall(coder.send(start))
        piece = filling * (MB // len(filling))
        for _ in range(size // MB):
            sock.sendall(coder.send(piece))
    except OSError:
        pass


@pytest.mark.parametrize("layer", ["deflate", "snappy"])
@pytest.mark.parametrize(
    ("start", "filling", "size"),
    [
        (b"PUB ", b"t" * 1024, BOMB),
        (b"PUB bomb\n" + struct.pack(">i", BOMB), bytes(1024), BOMB),
        (b"MPUB bomb\n" + struct.pack(">ii", MB, 200_000), b"\0\0\0\1x", BOMB),
        (b"NOP\n", b"NOP\n" * 256, 2 * MB),
        (b"", b"\n" * 1024, BOMB),
    ],
    ids=["line", "message", "MPUB", "NOP", "empty"],
)
def test_a_bomb_costs_no_memory(layer: str, start: bytes, filling: bytes, size: int) -> None:
    with running() as victim:
        victim.check_alive()
        before = victim.rss
        with victim.connect() as sock:
            compressed_connection(sock, layer)
            explode(sock, layer, start, filling, size)
            assert victim.rss - before < GROWTH_MAX
        victim.check_alive()
        assert victim.rss - before < GROWTH_MAX


def test_a_bomb_in_one_piece_leaves_time_for_others() -> None:
    """All of it lies in nsqd's hands at once, and is turned into commands bit by bit."""
    with running() as victim:
        victim.check_alive()
        before = victim.rss
        bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = b"".join(bomb.compress(b"NOP\n" * (MB // 4)) for _ in range(16)) + bomb.flush(
            zlib.Z_SYNC_FLUSH
        )
        assert len(data) < MB // 4
        with victim.connect() as sock, victim.connect() as other:
            compressed_connection(sock, "deflate")
            sock.sendall(data)
            assert ask(other, publish("meanwhile", b"x")) == b"OK"
        assert victim.rss - before < GROWTH_MAX
        victim.check_alive()


@pytest.mark.parametrize("layer", ["deflate", "snappy"])
def test_garbage_inside_a_layer_ends_the_connection(layer: str) -> None:
    with running() as victim:
        for garbage in (b"\xff" * 100, b"\xff\x06\x00\x00sNaPpY\x00\x05\x00\x00aaaaaaaaa" * 3):
            with victim.connect() as sock:
                compressed_connection(sock, layer)
                sock.sendall(garbage)
                assert read_to_end(sock) == b""
        victim.check_alive()


def test_a_layer_that_was_not_asked_for_is_garbage() -> None:
    with running() as victim, victim.connect() as sock:
        sock.sendall(SnappyLayer().send(b"NOP\n") + b"\n")
        assert read_frame(sock)[1].startswith(b"E_INVALID invalid command")
        assert read_to_end(sock) == b""
        victim.check_alive()

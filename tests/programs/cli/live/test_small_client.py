"""The smallest client, against a scripted nsqd."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.cli.live.small_client import Wire, WireError
from penstock.nsq.protocol.frames import HEARTBEAT_FRAME, OK_FRAME, MessageBlock, Response, error
from penstock.testing.daemons import run_nsqd
from tools.harness.ports import unused_address
from tools.harness.streams import exactly

SECONDS = 60
Script = Callable[[socket.socket], None]


@contextmanager
def scripted(script: Script) -> Iterator[str]:
    """A server that plays this to one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(SECONDS)
                script(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(SECONDS)


def message(body: bytes) -> bytes:
    return struct.pack(">IIqH", 30 + len(body), 2, 1, 1) + b"%016x" % 7 + body


def test_heartbeats_are_answered_and_the_rest_comes_in_order() -> None:
    heard: list[bytes] = []

    def script(peer: socket.socket) -> None:
        heard.append(exactly(peer, 4))
        data = OK_FRAME + HEARTBEAT_FRAME + message(b"one") + message(b"two")
        peer.sendall(data[:13])
        peer.sendall(data[13:])
        heard.append(exactly(peer, 4))

    with scripted(script) as address:
        wire = Wire(address)
        frames = wire.frames()
        first = next(frames)
        assert isinstance(first, Response)
        bodies: list[bytes] = []
        while len(bodies) < 2:
            block = next(frames)
            assert isinstance(block, MessageBlock)
            bodies += [bytes(each.body) for each in block]
        assert bodies == [b"one", b"two"]
        with pytest.raises(WireError, match="nsqd closed the connection"):
            next(frames)
        wire.close()
    assert heard == [b"  V2", b"NOP\n"]


def test_an_error_frame_is_raised() -> None:
    def script(peer: socket.socket) -> None:
        exactly(peer, 4)
        peer.sendall(error("E_BAD_TOPIC no"))

    with scripted(script) as address:
        wire = Wire(address)
        with pytest.raises(WireError, match="nsqd says E_BAD_TOPIC no"):
            next(wire.frames())
        wire.close()


def test_nobody_there() -> None:
    address = unused_address()
    with pytest.raises(WireError, match=f"nsqd at {address} cannot be reached"):
        Wire(address)


def test_a_real_nsqd() -> None:
    with run_nsqd() as nsqd:
        wire = Wire(nsqd.tcp)
        wire.send(b"PUB t\n" + struct.pack(">I", 2) + b"hi")
        answer = next(wire.frames())
        assert isinstance(answer, Response)
        wire.close()

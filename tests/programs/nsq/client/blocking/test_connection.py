"""One blocking connection against scripted servers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    NotConnected,
    TimedOut,
)
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.events import Nop, Ready
from penstock.nsq.protocol.frames import MessageBlock, Response
from tests.unit.nsq.client.fakes import fake_nsqd


@contextlib.contextmanager
def saying(answer: bytes) -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that says this to whoever comes, and reads nothing."""
    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def accept() -> None:
            peer, _ = listener.accept()
            peers.append(peer)
            peer.sendall(answer)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", peers
        finally:
            thread.join()
            for peer in peers:
                peer.close()


def test_a_conversation() -> None:
    with fake_nsqd(version="1.3.0", max_rdy_count=7) as nsqd:
        connection = Connection(nsqd.address, topic="t", channel="c")
        assert connection.server.version == "1.3.0"
        nsqd.put(b"a")
        connection.set_ready(9)
        connection.set_ready(7)
        block = connection.receive()
        assert isinstance(block, MessageBlock)
        assert block.bodies() == [b"a"]
        assert connection.answer(encode.finish(block[0].id))
        connection.send(encode.CLS)
        assert connection.receive(60) == Response(b"CLOSE_WAIT")
        assert nsqd.asked.count(Ready(7)) == 1
        assert connection.receive_ready() == []
        assert (connection.state.finished, connection.ready, connection.state.left) == (1, 7, True)
        connection.close()
        connection.close()
        assert not connection.is_open
        assert connection.fileno() == -1


def test_messages_in_flight_are_counted() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        connection.add_in_flight(3)
        connection.settled(2)
        assert connection.in_flight == connection.state.in_flight == 1
        connection.close()


def test_a_lost_connection() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        nsqd.drop_connections()
        with pytest.raises(NotConnected, match="the server closed the connection"):
            connection.receive(60)
        assert not connection.answer(encode.NOP)
        with pytest.raises(NotConnected, match="is closed"):
            connection.receive_ready()
        with pytest.raises(NotConnected, match="is closed"):
            connection.send(encode.NOP)


def test_patience() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        with pytest.raises(TimedOut, match=r"no answer within 0.05 s$"):
            connection.receive(0.05)
        assert not connection.is_open


def test_garbage_ends_it() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        nsqd.send(b"\xff" * 20)
        with pytest.raises(NotConnected, match="is no NSQ frame"):
            connection.receive(60)
        assert not connection.is_open


def test_frames_that_came_together_are_kept() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        nsqd.send(frames.OK_FRAME * 3)
        assert connection.receive() == Response(b"OK")
        rest = connection.receive_ready()
        while len(rest) < 2:
            rest += connection.receive_ready()
        assert rest == [Response(b"OK")] * 2
        connection.close()


def test_heartbeats_are_answered_while_something_is_received() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        nsqd.send(frames.HEARTBEAT_FRAME + frames.OK_FRAME)
        assert connection.receive(60) == Response(b"OK")
        nsqd.wait(lambda: nsqd.count(Nop) == 1)
        assert connection.state.last_heartbeat is not None
        connection.close()


def test_a_server_that_takes_nothing_is_gone() -> None:
    with saying(frames.response(b"{}")) as (address, _):
        connection = Connection(address, Config(write_timeout=0.1))
        with pytest.raises(TimedOut, match=r"the server took nothing .* for 0.1 s"):
            connection.send(encode.publish("t", bytes(32 << 20)))
        assert not connection.is_open


def test_a_server_that_takes_slowly_stays() -> None:
    """Each wait for room has the whole time, however long all of them take together."""
    waits: list[float] = []

    class Slow:
        """A socket that has room again whenever that is waited for, after the server took some."""

        def poll(self, ms: float) -> object:
            waits.append(ms)
            peers[0].recv(1 << 20)
            while not (found := real.poll(100)):
                peers[0].recv(1 << 20)
            return found

    with saying(frames.response(b"{}")) as (address, peers):
        connection: Any = Connection(address, Config(write_timeout=0.6))
        real, connection._writable = connection._writable, Slow()
        connection.send(bytes(24 << 20))
        assert connection.is_open
        connection.close()
    assert len(waits) > 2
    assert set(waits) == {600}


def test_a_write_that_a_signal_interrupts_ends_it() -> None:
    class Interrupted:
        def poll(self, _: float) -> NoReturn:
            raise KeyboardInterrupt

    with saying(frames.response(b"{}")) as (address, _):
        connection: Any = Connection(address)
        connection._writable = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            connection.send(encode.publish("t", bytes(32 << 20)))
        assert not connection.is_open

"""One blocking connection against a scripted server."""

from __future__ import annotations

import pytest

from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import BadBody, NotConnected, TimedOut
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.commands import Ready
from penstock.nsq.protocol.frames import MessageBlock, Response
from tests.unit.nsq.client.fakes import fake_nsqd


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
        assert connection.receive(5) == Response(b"CLOSE_WAIT")
        assert nsqd.asked.count(Ready(7)) == 1
        assert connection.receive_ready() == []
        connection.close()
        connection.close()
        assert not connection.is_open
        assert connection.fileno() == -1


def test_a_refused_identify() -> None:
    with fake_nsqd() as nsqd:
        nsqd.refusals["Identify"] = "E_BAD_BODY IDENTIFY msg timeout (5) is invalid"
        with pytest.raises(BadBody):
            Connection(nsqd.address, Config(msg_timeout=5))


def test_a_lost_connection() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        nsqd.drop_connections()
        with pytest.raises(NotConnected):
            connection.receive(5)
        assert not connection.answer(encode.NOP)
        with pytest.raises(NotConnected, match="is closed"):
            connection.receive_ready()
        with pytest.raises(NotConnected, match="is closed"):
            connection.send(encode.NOP)


def test_patience() -> None:
    with fake_nsqd() as nsqd:
        connection = Connection(nsqd.address)
        with pytest.raises(TimedOut):
            connection.receive(0.05)
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

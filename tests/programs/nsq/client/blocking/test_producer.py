"""The blocking producer against a scripted server."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    ClientError,
    Stopped,
    TimedOut,
)
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Auth, Nop, Publish
from tests.programs.nsq.client.conftest import bodies
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd


def test_no_answer(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address, resend=False) as producer:
        producer.ping()
        nsqd.silent = True
        connection: Any = producer._nodes[nsqd.address].connection  # this one alone is impatient
        connection.config = replace(connection.config, read_timeout=0.5)
        with pytest.raises(TimedOut, match=nsqd.address):
            producer.publish("t", b"1")
        nsqd.silent = False
        producer.publish("t", b"1")


def test_heartbeats_are_answered_while_waiting(nsqd: FakeNsqd) -> None:
    def answer() -> None:
        nsqd.wait(lambda: nsqd.count(Publish) == 1)
        nsqd.send(frames.HEARTBEAT_FRAME * 2 + frames.OK_FRAME)

    with Producer(nsqd.address) as producer:
        producer.ping()
        nsqd.wait(lambda: nsqd.count(Nop) == 1)
        nsqd.silent = True
        threading.Thread(target=answer).start()
        producer.publish("t", b"x")
        nsqd.wait(lambda: nsqd.count(Nop) == 3)


def test_authentication() -> None:
    with fake_nsqd(auth_required=True) as nsqd:
        with Producer(nsqd.address, config=Config(auth_secret="secret")) as producer:
            producer.publish("t", b"x")
        assert Auth(b"secret") in nsqd.asked
        with pytest.raises(ClientError, match="requires authentication"):
            Producer(nsqd.address).publish("t", b"x")


def test_soon_and_flush(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address, max_pending=500) as producer:
        for n in range(1000):
            outcome = producer.publish_soon("t", b"%d" % n)
            assert producer.pending <= 500
        assert not outcome.done()
        outcome.result()
        producer.publish_soon("t", b"last")
    assert bodies(nsqd) == [*(b"%d" % n for n in range(1000)), b"last"]
    assert len(nsqd.published) < 10


class Torn:
    """A socket on which a signal's handler raises in the midst of what is sent first."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._is_torn = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def send(self, data: memoryview) -> int:
        if self._is_torn:
            return int(self._whole.send(data))
        self._is_torn = True
        self._whole.send(data[: len(data) // 2])
        raise KeyboardInterrupt


def test_nothing_follows_half_a_command(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.ping()
        connection: Any = producer._nodes[nsqd.address].connection
        connection._socket = Torn(connection._socket)
        with pytest.raises(KeyboardInterrupt):
            producer.publish("t", bytes(100))
        producer.publish("t", b"next" * 99)
    assert bodies(nsqd) == [bytes(100), b"next" * 99]


def test_what_a_signal_kept_from_being_sent_goes_with_the_next_call(
    nsqd: FakeNsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with Producer(nsqd.address) as producer:
        producer.publish("t", b"1")
        nsqd.silent = True
        for n in range(2, 4):
            producer.publish_soon("t", b"%d" % n)
            producer._send_pile()
        nsqd.wait(lambda: nsqd.count(Publish) == 3)
        nsqd.silent = False
        nsqd.drop_connections()
        with monkeypatch.context() as patch:
            patch.setattr(socket, "create_connection", interrupted)
            with pytest.raises(KeyboardInterrupt):
                producer.flush()
        assert producer.pending == 2
    assert sorted(bodies(nsqd)) == [b"1", b"2", b"3"]


def test_stopped(nsqd: FakeNsqd) -> None:
    producer = Producer(nsqd.address)
    outcome = producer.publish_soon("t", b"x")
    producer.close()
    for late in (outcome.result, lambda: producer.publish("t", b"x"), producer.ping):
        with pytest.raises(Stopped, match="stopped"):
            late()
    assert nsqd.asked == []

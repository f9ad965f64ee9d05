"""The blocking producer against a scripted server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from penstock.nsq.client.blocking import Producer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    BadMessage,
    BadTopic,
    ClientError,
    NotConnected,
    PubFailed,
    Stopped,
    TimedOut,
)
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Auth, Nop, Publish
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd
from tools.harness.ports import unused_address


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with fake_nsqd() as server:
        yield server


def test_publish(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.publish("t", b"one")
        producer.multi_publish("t", [b"two", b"three"])
        producer.multi_publish("t", [])
        producer.deferred_publish("t", 0.05, b"four")
        producer.ping()
    assert nsqd.published == [("t", [b"one"]), ("t", [b"two", b"three"]), ("t", [b"four"])]


def test_a_refusal_is_named_for_its_code_and_the_producer_lives_on(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        with pytest.raises(BadTopic, match=r'^E_BAD_TOPIC PUB topic name "t!" is not valid$'):
            producer.publish("t!", b"x")
        with pytest.raises(BadMessage, match=r"^E_BAD_MESSAGE PUB invalid message body size 0$"):
            producer.publish("t", b"")
        nsqd.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
        with pytest.raises(PubFailed):
            producer.publish("t", b"x")
        nsqd.refusals.clear()
        producer.publish("t", b"x")
    assert nsqd.published == [("t", [b"x"])]


def test_a_connection_lost_in_between_is_replaced(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.publish("t", b"1")
        nsqd.drop_connections()
        nsqd.wait(lambda: not nsqd._sessions)
        producer.publish("t", b"2")
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2"])]


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


def test_nobody_there() -> None:
    address = unused_address()
    with pytest.raises(NotConnected, match=address):
        Producer(address).publish("t", b"1")


def test_a_host_whose_name_has_an_empty_part() -> None:
    unknown = pytest.raises(NotConnected, match=r"lookup nsqd\.\.example\.com: no such host")
    with Producer("nsqd..example.com:4150") as producer, unknown:
        producer.publish("t", b"x")


def once_published(nsqd: FakeNsqd, answer: bytes) -> None:
    """Let the server say this when a publish has come."""

    def work() -> None:
        nsqd.wait(lambda: nsqd.count(Publish) == 1)
        nsqd.send(answer)

    threading.Thread(target=work).start()


def test_not_an_nsqd() -> None:
    with fake_nsqd() as nsqd, Producer(nsqd.address, resend=False) as producer:
        producer.ping()
        nsqd.silent = True
        once_published(nsqd, b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(NotConnected, match="E_BAD_FRAME"):
            producer.publish("t", b"x")


def test_an_unexpected_answer(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.ping()
        nsqd.silent = True
        once_published(nsqd, frames.response(b"WHAT"))
        with pytest.raises(ClientError, match="unexpected answer"):
            producer.publish("t", b"x")


def test_heartbeats_are_answered_while_waiting(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.ping()
        nsqd.wait(lambda: nsqd.count(Nop) == 1)
        nsqd.silent = True
        beat = frames.HEARTBEAT_FRAME
        once_published(nsqd, beat + beat + frames.OK_FRAME)
        producer.publish("t", b"x")
        nsqd.wait(lambda: nsqd.count(Nop) == 3)


def test_authentication() -> None:
    with fake_nsqd(auth_required=True) as nsqd:
        with Producer(nsqd.address, config=Config(auth_secret="secret")) as producer:
            producer.publish("t", b"x")
        assert Auth(b"secret") in nsqd.asked
        with pytest.raises(ClientError, match="requires authentication"):
            Producer(nsqd.address).publish("t", b"x")


def bodies(nsqd: FakeNsqd) -> list[bytes]:
    return [body for _, several in nsqd.published for body in several]


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


def test_flush_raises_what_an_outcome_would(nsqd: FakeNsqd) -> None:
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE MPUB message too big" if b"big" in bodies else ""
    with Producer(nsqd.address) as producer:
        outcomes = [producer.publish_soon("t", body) for body in (b"1", b"big", b"2")]
        with pytest.raises(BadMessage):
            producer.flush()
        outcomes[0].result()
        with pytest.raises(BadMessage):
            outcomes[1].result()
        producer.flush()
    assert bodies(nsqd) == [b"1", b"2"]


def test_another_node_stands_in() -> None:
    with fake_nsqd() as one, fake_nsqd() as two:
        with Producer(unused_address(), one.address, two.address) as producer:
            producer.ping()
            for n in range(6):
                producer.publish("t", b"%d" % n)
            one.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
            for n in range(6, 10):
                producer.publish("t", b"%d" % n)
        assert sorted(bodies(one) + bodies(two)) == [b"%d" % n for n in range(10)]
        assert bodies(one)


@pytest.mark.parametrize("resend", [True, False])
def test_a_loss_before_the_answer(nsqd: FakeNsqd, resend: bool) -> None:
    with Producer(nsqd.address, resend=resend) as producer:
        producer.ping()
        nsqd.silent = True
        outcome = producer.publish_soon("t", b"1")
        producer._send_pile()
        nsqd.wait(lambda: nsqd.count(Publish) == 1)
        nsqd.silent = False
        nsqd.drop_connections()
        if resend:
            outcome.result()
        else:
            with pytest.raises(NotConnected):
                outcome.result()
            producer.failures.clear()
    assert bodies(nsqd) == ([b"1"] if resend else [])


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


def test_big_lists_become_several_commands(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address, max_body_size=100) as producer:
        producer.multi_publish("t", [b"%030d" % n for n in range(6)])
    assert [len(several) for _, several in nsqd.published] == [2, 2, 2]


def test_stopped(nsqd: FakeNsqd) -> None:
    producer = Producer(nsqd.address)
    outcome = producer.publish_soon("t", b"x")
    producer.close()
    for late in (outcome.result, lambda: producer.publish("t", b"x"), producer.ping):
        with pytest.raises(Stopped, match="stopped"):
            late()
    assert nsqd.asked == []

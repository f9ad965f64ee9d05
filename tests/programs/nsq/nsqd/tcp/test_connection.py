"""What a connection does with commands that must wait; the rest of its life is in test_session."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import StorageError
from penstock.net.tls.layered import LayeredTransport
from penstock.nsq.nsqd.tcp import connection
from penstock.nsq.nsqd.tcp.session import Session
from penstock.nsq.protocol.events import Auth, Subscribe
from penstock.nsq.protocol.frames import response as response_frame
from tests.programs.nsq.nsqd.conftest import (
    Client,
    Running,
    beat_quickly,
    identify,
    pub,
    served,
)


class Waiting:
    """A connection whose AUTH waits until it is told to go on, and whose SUB comes again."""

    def __init__(self, served: connection.Connection) -> None:
        self.served = served
        self.asked: list[str] = []
        served.session.handlers = {
            **Session.handlers,
            Auth: self.on_auth,
            Subscribe: self.on_subscribe,
        }

    def on_auth(self, session: Session, event: Auth) -> None:
        self.asked.append("AUTH")
        self.served.suspend()

    def on_subscribe(self, session: Session, event: Subscribe) -> None:
        self.asked.append("SUB")
        if self.asked.count("SUB") == 1:
            self.served.suspend(event)
        else:
            session._on_subscribe(event)

    def go_on(self, answer: bytes = b"done") -> None:
        self.served.outbox.send(response_frame(answer))
        self.served.resume()


AUTH = b"AUTH\n\x00\x00\x00\x01s"


@pytest.fixture
async def client(nsqd: Running) -> Client:
    return await nsqd.connect()


@pytest.fixture
async def waiting(nsqd: Running, client: Client) -> Waiting:
    return Waiting(await served(nsqd, client))


async def test_nothing_is_handled_until_the_handler_goes_on(
    nsqd: Running, client: Client, waiting: Waiting
) -> None:
    client.send(pub("t", b"1") + AUTH + pub("t", b"2"))
    assert await client.frame() == (0, b"OK")
    await nsqd.until(lambda: waiting.asked == ["AUTH"])
    client.send(b"NONSENSE\n")
    await asyncio.sleep(0.02)
    assert (await nsqd.topic("t"))["message_count"] == 1
    waiting.go_on()
    assert [await client.frame() for _ in range(2)] == [(0, b"done"), (0, b"OK")]
    assert await client.error() == "E_INVALID invalid command NONSENSE"


async def test_a_command_can_come_again(nsqd: Running, client: Client, waiting: Waiting) -> None:
    client.send(b"SUB t c\nRDY 1\n")
    await nsqd.until(lambda: waiting.asked == ["SUB"])
    waiting.served.resume()
    waiting.served.resume()  # nothing waits any more
    assert await client.frame() == (0, b"OK")
    assert waiting.asked == ["SUB", "SUB"]
    await nsqd.publish("t", b"x")
    assert (await client.message()).body == b"x"


async def test_a_client_that_sends_no_more_is_still_answered(
    nsqd: Running, client: Client, waiting: Waiting
) -> None:
    client.send(AUTH + pub("t", b"x"))
    client.writer.write_eof()
    await nsqd.until(lambda: waiting.served.is_at_end)
    waiting.go_on()
    assert [await client.frame() for _ in range(2)] == [(0, b"done"), (0, b"OK")]
    assert await client.closed()


async def test_a_lost_connection_goes_on_to_nothing(
    nsqd: Running, client: Client, waiting: Waiting
) -> None:
    client.send(AUTH + pub("t", b"x"))
    await nsqd.until(lambda: waiting.asked == ["AUTH"])
    session = waiting.served.session
    client.transport.abort()
    waiting.served.transport.abort()
    await nsqd.until(lambda: session not in nsqd.nsqd.sessions)
    waiting.served.resume()
    waiting.served.fail("E_AUTH_FAILED AUTH failed")
    assert "t" not in nsqd.nsqd.node.broker.topics


async def test_what_comes_meanwhile_is_bounded(
    nsqd: Running, client: Client, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HELD_BYTES_MAX", 10_000)
    client.send(AUTH)
    for _ in range(100):
        client.send(b"NOP\n" * 5_000)
        await asyncio.sleep(0)
    await nsqd.until(lambda: waiting.asked == ["AUTH"])
    await asyncio.sleep(0.05)
    assert waiting.served.reader.unread < 1 << 20  # of 2 MB
    client.send(pub("t", b"x"))
    waiting.go_on()
    assert [await client.frame() for _ in range(2)] == [(0, b"done"), (0, b"OK")]


async def test_waiting_is_no_silence_of_the_client(
    nsqd: Running, client: Client, waiting: Waiting
) -> None:
    client.send(AUTH)
    await nsqd.until(lambda: waiting.asked == ["AUTH"])
    beat_quickly(waiting.served, 20)
    for _ in range(5):
        assert await client.frame() == (0, b"_heartbeat_")
    waiting.go_on()
    client.send(b"NOP\n")
    while (frame := await client.frame()) == (0, b"_heartbeat_"):
        pass
    assert frame == (0, b"done")


async def test_an_error_in_turn_follows_what_is_owed(
    nsqd: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_topic(name: str) -> None:
        raise StorageError("no space left on device")

    assert await client.ask(pub("t", b"0")) == b"OK"
    monkeypatch.setattr(nsqd.nsqd.node.registry, "topic", no_topic)
    client.send(pub("t", b"1") + pub("t", b"2") + pub("u", b"3"))
    assert [await client.frame() for _ in range(2)] == [(0, b"OK")] * 2
    assert await client.error() == "E_PUB_FAILED PUB failed no space left on device"
    assert await client.closed()


async def test_without_layers_the_transport_is_the_bare_one(nsqd: Running, client: Client) -> None:
    await client.ask(identify(feature_negotiation=True))
    ours = await served(nsqd, client)
    assert not isinstance(ours.transport, LayeredTransport)
    assert (ours.is_tls, ours.tls_common_name, ours.compression) == (False, "", "")

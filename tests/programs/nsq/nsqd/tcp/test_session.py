"""A connection's life, over real sockets (NSQ spec 1.1 to 1.9)."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from penstock.core.units import MILLISECOND
from penstock.net.tls.layered import LayeredTransport
from penstock.node.commits import AT_ONCE
from penstock.nsq.nsqd.tcp import connection, session
from penstock.nsq.nsqd.tcp.session import Session
from penstock.nsq.protocol.events import Auth, Subscribe
from penstock.nsq.protocol.frames import response as response_frame
from penstock.storage.durability import Durability
from penstock.testing.clock import FakeClock
from tests import nsqds
from tests.programs.nsq.nsqd.conftest import (
    BEAT_MS,
    Client,
    Running,
    Start,
    beat_quickly,
    dpub,
    identify,
    mpub,
    options,
    pub,
    served,
    slow_disk,
)

HEARTBEAT, OK = (0, b"_heartbeat_"), (0, b"OK")
AUTH = b"AUTH\n\x00\x00\x00\x01s"


def stand_still(clock: FakeClock, ms: int) -> None:
    """Block the event loop until the clock has advanced."""
    time.sleep(ms / 1000)
    clock.advance(ms * MILLISECOND)


# --- order of answers


@pytest.mark.parametrize("behind", [pub("t", b"x"), b"SUB u c\n"], ids=["publish", "subscribe"])
async def test_nothing_overtakes_the_refusal_of_another_topic(nsqd: Running, behind: bytes) -> None:
    await nsqd.publish("full", b"x")
    await nsqd.post("/topic/config?topic=full", b'{"max_depth": 1}')
    client = await nsqd.connect()
    before = AT_ONCE + 8  # so that the last ones share a commit
    client.send(pub("t", b"x") * before + pub("full", b"x") + behind)
    assert [await client.frame() for _ in range(before)] == [OK] * before
    assert "full" in await client.error()
    assert await client.closed()
    assert "u" not in nsqd.nsqd.node.broker.topics


async def test_an_ok_does_not_overtake_the_sync_of_another_topic(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gate = slow_disk(monkeypatch, within="/slow@")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    await nsqd.publish("quick", b"x")
    gate.clear()
    client = await nsqd.connect()
    client.send(pub("slow", b"1") + pub("quick", b"2") + pub("quick", b"3"))
    log = nsqd.nsqd.node.broker.topics["quick"].log
    await nsqd.until(lambda: log.next_offset == 3 and log.unsynced_messages == 0)
    assert await client.silent(0.05)
    gate.set()
    assert [await client.frame() for _ in range(3)] == [OK] * 3


async def test_a_failed_fin_does_not_overtake_an_owed_ok(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"SUB t c\n" + pub("t", b"x") + b"FIN 0123456789abcdef\n" + pub("t", b"y"))
    failed = (1, b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight")
    assert [await client.frame() for _ in range(4)] == [OK, OK, failed, OK]


async def test_an_ok_goes_before_the_messages_that_one_publishes_to_itself(nsqd: Running) -> None:
    client = await nsqd.connect()
    await client.subscribe("t", ready=100)
    for count in (1, 1, 1, 2, 1, 50):
        client.send(b"".join(pub("t", b"%d" % number) for number in range(count)))
        kinds = [(await client.frame())[0] for _ in range(2 * count)]
        assert sorted(kinds) == [0] * count + [2] * count
        for place in range(1, 2 * count + 1):
            assert kinds[:place].count(2) <= kinds[:place].count(0), "a message before its OK"


async def test_lone_publishes_are_like_others(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=100)
    client = await nsqd.connect()
    commands = [pub("t", b"a"), mpub("t", b"b"), dpub("t", 0, b"c"), mpub("t", b"d", b"e")]
    for command in commands * 3:
        assert await client.ask(command) == b"OK"
    bodies = [message.body for message in await consumer.messages(15)]
    assert bodies == [b"a", b"b", b"c", b"d", b"e"] * 3
    (own,) = (each for each in nsqd.nsqd.sessions if each.connection.pub_counts)
    assert own.connection.pub_counts == {"t": 15}
    assert (await nsqd.topic("t"))["message_count"] == 15
    # A deleted topic is made again, and a full one refuses.
    assert (await nsqd.post("/topic/delete?topic=t"))[0] == 200
    assert await client.ask(pub("t", b"x")) == b"OK"
    assert (await nsqd.topic("t"))["message_count"] == 1
    await nsqd.post("/topic/config?topic=t", b'{"max_depth": 1}')
    assert "full" in await client.error(pub("t", b"x"))


async def test_publishes_to_topics_that_are_gone_are_not_counted_for_ever(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PUB_COUNTS_MIN", 3)
    client = await nsqd.connect()
    registry = nsqd.nsqd.node.registry
    for name in ("stays", "a", "b", "c", "d", "e"):
        assert await client.ask(pub(name, b"x")) == b"OK"
        if name != "stays":
            await registry.delete_topic(registry.topics[name])
    (own,) = nsqd.nsqd.sessions
    assert own.connection.pub_counts == {"stays": 1, "e": 1}
    registry.topic("a")
    assert await client.ask(pub("a", b"x")) == b"OK"  # its line is still known
    assert own.connection.pub_counts["a"] == 1


@pytest.mark.parametrize(
    ("sent", "is_ending", "answers", "stored"),
    [
        (pub("t", b"x") + b"NONSENSE\n" + pub("t", b"never"), False,
         [OK, (1, b"E_INVALID invalid command NONSENSE")], 1),
        (pub("t", b"x") + mpub("t", b"y", b"z"), True, [OK] * 2, 3),
        (pub("t", b"x") + pub("t", b"cut short")[:-3], True,
         [OK, (1, b"E_BAD_MESSAGE PUB failed to read message body")], 1),
        (pub("t", b"x") + b"SUB t c\n" + pub("t", b"y"), True, [OK] * 3, 2),
    ],
    ids=["error", "half-closed", "inside-a-body", "behind-a-held-command"],
)  # fmt: skip
async def test_what_is_owed_comes_before_the_end(
    nsqd: Running, sent: bytes, is_ending: bool, answers: list[tuple[int, bytes]], stored: int
) -> None:
    client = await nsqd.connect()
    client.send(sent)
    if is_ending:
        client.writer.write_eof()
    assert [await client.frame() for _ in answers] == answers
    assert await client.closed()
    assert (await nsqd.topic("t"))["message_count"] == stored


# --- magic and heartbeats


async def test_without_a_magic_there_are_no_heartbeats_and_soon_an_end(start: Start) -> None:
    nsqd = await start(magic_timeout=100 * MILLISECOND)
    client = await nsqd.connect(b" ")
    assert await client.closed()


async def test_any_command_keeps_the_connection(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    own = await served(nsqd, client)
    beat_quickly(own)
    for _ in range(6):
        assert await client.frame() == HEARTBEAT
        clock.advance(BEAT_MS * MILLISECOND)
        client.send(b"NOP\n")
        await nsqd.until(lambda: own.heard_ns == clock.monotonic_ns())
    assert await client.frame() == HEARTBEAT


@pytest.mark.parametrize("loops", [asyncio, uvloop])
def test_nsqd_held_up_itself_does_not_take_it_for_silence(loops: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        nsqd = Running(await nsqds.start(options(tmp_path), clock))
        client = await nsqd.connect()
        assert await client.ask(pub("t", b"x")) == b"OK"
        beat_quickly(await served(nsqd, client))
        for _ in range(2):
            stand_still(clock, 3 * BEAT_MS)
            assert await client.frame() == HEARTBEAT
            client.send(b"NOP\n")
        assert await client.frame() == HEARTBEAT
        await nsqd.stop()

    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(scenario())


async def test_a_body_that_trickles_is_cut_off_with_an_error(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    beat_quickly(await served(nsqd, client))
    client.send(b"PUB t\n" + struct.pack(">i", 1000))

    async def trickle() -> None:
        while True:
            client.send(b"x")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(trickle())
    try:
        frame = await client.frame()
        while frame == HEARTBEAT:
            frame = await client.frame()
    finally:
        task.cancel()
    assert frame == (1, b"E_BAD_MESSAGE PUB failed to read message body")


# --- consuming


async def test_cls_ends_delivery_but_not_the_messages_in_flight(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2")
    consumer = await nsqd.consumer("t")
    message = await consumer.message()
    assert await consumer.ask(b"CLS\n") == b"CLOSE_WAIT"
    consumer.send(b"RDY 5\nFIN %s\n" % message.id)
    assert await consumer.silent(0.05)
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"]) == (0, 1)


# --- after the end


async def test_a_failed_consumer_gets_nothing_while_its_error_lingers(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=10)
    assert "E_INVALID" in await consumer.error(b"NONSENSE\n")
    producer = await nsqd.connect()
    for _ in range(3):
        assert await producer.ask(pub("t", b"x")) == b"OK"
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"], stats["clients"]) == (0, 3, [])


async def test_without_the_experiment_all_are_alike(start: Start) -> None:
    nsqd = await start(topology_zone="zone")
    client = await nsqd.connect()
    await client.ask(identify(topology_zone="zone", feature_negotiation=True))
    await client.subscribe("t", ready=5)
    producer = await nsqd.connect()
    await producer.ask(pub("t", b"m"))
    await client.message()
    channel = await nsqd.channel("t")
    assert channel["global_msg_count"] == 1
    assert "zone_local_msg_count" not in channel


# --- commands that must wait


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


@pytest.fixture
async def client(nsqd: Running) -> Client:
    return await nsqd.connect()


@pytest.fixture
async def waiting(nsqd: Running, client: Client) -> Waiting:
    return Waiting(await served(nsqd, client))


async def test_a_command_can_come_again(nsqd: Running, client: Client, waiting: Waiting) -> None:
    client.send(b"SUB t c\nRDY 1\n")
    await nsqd.until(lambda: waiting.asked == ["SUB"])
    waiting.served.resume()
    waiting.served.resume()  # nothing waits any more
    assert await client.frame() == OK
    assert waiting.asked == ["SUB", "SUB"]
    await nsqd.publish("t", b"x")
    assert (await client.message()).body == b"x"


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


async def test_without_layers_the_transport_is_the_bare_one(nsqd: Running, client: Client) -> None:
    await client.ask(identify(feature_negotiation=True))
    ours = await served(nsqd, client)
    assert not isinstance(ours.transport, LayeredTransport)
    assert (ours.is_tls, ours.tls_common_name, ours.compression) == (False, "", "")

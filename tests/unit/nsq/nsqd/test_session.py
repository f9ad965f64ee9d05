"""A connection's life, over real sockets (NSQ reference 1.1 to 1.9)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import json
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.nsqd import connection, daemon
from penstock.nsq.nsqd.commits import AT_ONCE
from penstock.nsq.nsqd.session import Session
from penstock.nsq.protocol.frames import error
from penstock.storage.durability import Durability
from penstock.storage.log import Log
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk, FaultyFile

from .conftest import (
    TIMEOUT_S,
    Client,
    Running,
    Start,
    dpub,
    faulty_disk,
    identify,
    mpub,
    options,
    pub,
)

HEARTBEAT = (0, b"_heartbeat_")
BEAT_MS = 50


def stand_still(clock: FakeClock, ms: int) -> None:
    """Block the event loop until the clock has advanced."""
    time.sleep(ms / 1000)
    clock.advance(ms * MILLISECOND)


def beat_quickly(own: Session, ms: int = BEAT_MS) -> None:
    """Heartbeats faster than IDENTIFY allows."""
    own.identity = dataclasses.replace(own.identity, heartbeat_interval=ms * MILLISECOND)
    own._schedule_beat(ms * MILLISECOND)


async def session_of(running: Running, client: Client) -> Session:
    port = client.writer.get_extra_info("sockname")[1]
    await running.until(lambda: any(s.remote_address.endswith(f":{port}")
                                    for s in running.nsqd.sessions))  # fmt: skip
    return next(s for s in running.nsqd.sessions if s.remote_address.endswith(f":{port}"))


def non_reading(port: int) -> socket.socket:
    """A connection with a small receive buffer that nobody reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    return sock


# --- order of answers -----------------------------------------------------------------------------


async def test_pipelined_answers_come_in_the_order_of_the_commands(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(
        pub("t", b"1") + mpub("u", b"2", b"3")
        + dpub("t", 0, b"4") + b"NOP\n" + b"SUB t c\n" + pub("t", b"5") + b"CLS\n"
    )  # fmt: skip
    answers = [await client.frame() for _ in range(6)]
    assert answers == [(0, b"OK")] * 5 + [(0, b"CLOSE_WAIT")]


async def test_an_ok_does_not_overtake_the_refusal_of_another_topic(nsqd: Running) -> None:
    await nsqd.publish("full", b"x")
    await nsqd.post("/topic/config?topic=full", b'{"max_depth": 1}')
    client = await nsqd.connect()
    before = AT_ONCE + 8  # so that the last ones share a commit
    client.send(pub("t", b"x") * before + pub("full", b"x") + pub("t", b"x"))
    assert [await client.frame() for _ in range(before)] == [(0, b"OK")] * before
    assert "full" in await client.error()
    assert await client.closed()


async def test_a_command_that_waited_for_a_publish_which_failed_is_not_carried_out(
    nsqd: Running,
) -> None:
    await nsqd.publish("full", b"x")
    await nsqd.post("/topic/config?topic=full", b'{"max_depth": 1}')
    client = await nsqd.connect()
    before = AT_ONCE + 8
    client.send(pub("t", b"x") * before + pub("full", b"x") + b"SUB u c\n")
    assert [await client.frame() for _ in range(before)] == [(0, b"OK")] * before
    assert "full" in await client.error()
    assert await client.closed()
    assert "u" not in nsqd.nsqd.broker.topics


async def test_an_ok_does_not_overtake_the_sync_of_another_topic(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gate = slow_disk(monkeypatch, within="/slow@")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    await nsqd.publish("quick", b"x")
    gate.clear()
    client = await nsqd.connect()
    client.send(pub("slow", b"1") + pub("quick", b"2") + pub("quick", b"3"))
    log = nsqd.nsqd.broker.topics["quick"].log
    await nsqd.until(lambda: log.next_offset == 3 and log.unsynced_messages == 0)
    assert await client.silent(0.05)
    gate.set()
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3


async def test_a_failed_fin_does_not_overtake_an_owed_ok(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"SUB t c\n" + pub("t", b"x") + b"FIN 0123456789abcdef\n" + pub("t", b"y"))
    assert [await client.frame() for _ in range(4)] == [
        (0, b"OK"),
        (0, b"OK"),
        (1, b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"),
        (0, b"OK"),
    ]


async def test_subscribe_ready_and_publish_in_one_packet(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"SUB t c\nRDY 1\n" + pub("t", b"hello"))
    frames = sorted([await client.frame() for _ in range(3)])
    assert frames[:2] == [(0, b"OK"), (0, b"OK")]
    assert frames[2][1].endswith(b"hello")


async def test_an_ok_goes_before_the_messages_that_one_publishes_to_itself(nsqd: Running) -> None:
    client = await nsqd.connect()
    await client.subscribe("t", ready=100)
    for count in (1, 2, 50):
        client.send(b"".join(pub("t", b"%d" % number) for number in range(count)))
        kinds = [(await client.frame())[0] for _ in range(2 * count)]
        assert sorted(kinds) == [0] * count + [2] * count
        for place in range(1, 2 * count + 1):
            assert kinds[:place].count(2) <= kinds[:place].count(0), "a message before its OK"


async def test_an_error_waits_for_the_answers_before_it(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + b"NONSENSE\n" + pub("t", b"never"))
    assert await client.frame() == (0, b"OK")
    assert await client.error() == "E_INVALID invalid command NONSENSE"
    assert await client.closed()
    assert (await nsqd.topic("t"))["message_count"] == 1


async def test_a_fatal_error_arrives_although_much_input_is_unread(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"NONSENSE\n" + bytes(1 << 20))
    assert await client.error() == "E_INVALID invalid command NONSENSE"
    assert await client.closed()


async def test_a_client_that_half_closes_gets_what_is_owed(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + mpub("t", b"y", b"z"))
    client.writer.write_eof()
    assert await client.frame() == (0, b"OK")
    assert await client.frame() == (0, b"OK")
    assert await client.closed()


async def test_the_end_of_input_inside_a_body_is_told_after_the_owed_ok(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + pub("t", b"cut short")[:-3])
    client.writer.write_eof()
    assert await client.frame() == (0, b"OK")
    assert await client.error() == "E_BAD_MESSAGE PUB failed to read message body"
    assert await client.closed()


async def test_the_end_of_input_behind_a_held_command(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + b"SUB t c\n" + pub("t", b"y"))
    client.writer.write_eof()
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3
    assert await client.closed()


# --- magic and heartbeats -------------------------------------------------------------------------


async def test_a_wrong_magic(nsqd: Running) -> None:
    client = await nsqd.connect(b"  V1")
    assert await client.error() == "E_BAD_PROTOCOL"
    assert await client.closed()


async def test_the_magic_may_come_in_pieces(nsqd: Running) -> None:
    client = await nsqd.connect(b"  ")
    await asyncio.sleep(0.02)
    client.send(b"V2")
    assert await client.ask(pub("t", b"x")) == b"OK"


async def test_without_a_magic_there_are_no_heartbeats_and_soon_an_end(start: Start) -> None:
    nsqd = await start(magic_timeout=100 * MILLISECOND)
    client = await nsqd.connect(b" ")
    assert await client.closed()


async def test_heartbeats_come_and_silence_is_the_end(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    beat_quickly(await session_of(nsqd, client))
    beats = 0
    with contextlib.suppress(asyncio.IncompleteReadError):
        while beats < 20:
            assert await client.frame() == HEARTBEAT
            clock.advance(BEAT_MS * MILLISECOND)
            beats += 1
    assert 2 <= beats < 20  # more than 2 only where the machine is so busy that they are late


async def test_any_command_keeps_the_connection(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    own = await session_of(nsqd, client)
    beat_quickly(own)
    for _ in range(6):
        assert await client.frame() == HEARTBEAT
        clock.advance(BEAT_MS * MILLISECOND)
        client.send(b"NOP\n")
        await nsqd.until(lambda: own._heard_ns == clock.monotonic_ns())
    assert await client.frame() == HEARTBEAT


@pytest.mark.parametrize("loops", [asyncio, uvloop])
def test_nsqd_held_up_itself_does_not_take_it_for_silence(loops: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        nsqd = Running(await daemon.Nsqd.start(options(tmp_path), clock))
        client = await nsqd.connect()
        assert await client.ask(pub("t", b"x")) == b"OK"
        beat_quickly(await session_of(nsqd, client))
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
    beat_quickly(await session_of(nsqd, client))
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


async def test_identify_answers_and_sets_the_interval(nsqd: Running) -> None:
    client = await nsqd.connect()
    answer = json.loads(await client.ask(identify(feature_negotiation=True, msg_timeout=2000)))
    assert (answer["msg_timeout"], answer["max_rdy_count"]) == (2000, 2500)
    assert answer["version"] == "1.3.0"
    assert not answer["deflate"]
    assert await client.ask(identify(heartbeat_interval=1000)) == b"OK"
    async with asyncio.timeout(15):  # of the default it would be 30 s
        assert await client.frame() == HEARTBEAT


async def test_without_heartbeats_no_subscription(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(identify(heartbeat_interval=-1)) == b"OK"
    assert (await session_of(nsqd, client))._beat is None
    assert await client.error(b"SUB t c\n") == "E_INVALID cannot SUB with heartbeats disabled"


async def test_a_bad_identify_is_fatal(nsqd: Running) -> None:
    client = await nsqd.connect()
    text = "E_BAD_BODY IDENTIFY heartbeat interval (1) is invalid"
    assert await client.error(identify(heartbeat_interval=1)) == text
    assert await client.closed()


async def test_auth_is_disabled(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.error(b"AUTH\n\0\0\0\1x") == "E_AUTH_DISABLED AUTH disabled"


async def test_a_line_too_long_is_dropped_without_a_word(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"x" * 20_000)
    assert await client.closed()


# --- consuming ------------------------------------------------------------------------------------


async def test_finish_requeue_and_touch(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock, msg_timeout=SECOND)
    await nsqd.publish("t", b"x")
    consumer = await nsqd.consumer("t")
    first = await consumer.message()
    assert first.attempts == 1
    consumer.send(b"REQ %s 0\n" % first.id)
    second = await consumer.message()
    assert second == first._replace(attempts=2)
    for _ in range(3):
        clock.advance(400 * MILLISECOND)
        touched = b"TOUCH %s\nFIN ffffffffffffffff\n" % second.id
        assert (await consumer.error(touched)).startswith("E_FIN_FAILED")
    assert await consumer.silent(0.05)
    consumer.send(b"FIN %s\nNOP\nFIN %s\n" % (first.id, first.id))
    text = f"E_FIN_FAILED FIN {first.id.decode()} failed ID not in flight"
    assert await consumer.error() == text
    stats = await nsqd.channel("t")
    assert (stats["requeue_count"], stats["timeout_count"], stats["in_flight_count"]) == (1, 0, 0)


async def test_a_time_out_delivers_again(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock, msg_timeout=400 * MILLISECOND)
    await nsqd.publish("t", b"x")
    consumer = await nsqd.consumer("t")
    first = await consumer.message()
    clock.advance(400 * MILLISECOND)
    assert await consumer.message() == first._replace(attempts=2)
    assert (await nsqd.channel("t"))["timeout_count"] == 1


async def test_what_a_departed_consumer_held_times_out(start: Start) -> None:
    nsqd = await start(msg_timeout=500 * MILLISECOND)
    await nsqd.publish("t", b"x")
    gone = await nsqd.consumer("t")
    first = await gone.message()
    gone.writer.close()
    other = await nsqd.consumer("t")
    assert await other.message() == first._replace(attempts=2)


@pytest.mark.parametrize("command", ["FIN", "TOUCH", "REQ"])
async def test_somebody_elses_message(nsqd: Running, command: str) -> None:
    await nsqd.publish("t", b"x")
    owner = await nsqd.consumer("t")
    message = await owner.message()
    other = await nsqd.consumer("t", ready=0)
    delay = b" 0" if command == "REQ" else b""
    text = f"E_{command}_FAILED {command} {message.id.decode()} failed client does not own message"
    assert await other.error(b"%s %s%s\n" % (command.encode(), message.id, delay)) == text


async def test_ids_that_are_none_of_ours(nsqd: Running) -> None:
    client = await nsqd.consumer("t")
    for message_id in (b"zzzzzzzzzzzzzzzz", b"ABCDEF0123456789", b"ffffffffffffffff"):
        shown = message_id.decode()
        text = f"E_FIN_FAILED FIN {shown} failed ID not in flight"
        assert await client.error(b"FIN %s\n" % message_id) == text
        text = f"E_TOUCH_FAILED TOUCH {shown} failed ID not in flight"
        assert await client.error(b"TOUCH %s\n" % message_id) == text


async def test_ready_is_a_level(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2", b"3")
    consumer = await nsqd.consumer("t", ready=2)
    first, _ = await consumer.messages(2)
    assert await consumer.silent(0.05)
    consumer.send(b"FIN %s\n" % first.id)
    assert (await consumer.message()).body == b"3"


async def test_cls_ends_delivery_but_not_the_messages_in_flight(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2")
    consumer = await nsqd.consumer("t")
    message = await consumer.message()
    assert await consumer.ask(b"CLS\n") == b"CLOSE_WAIT"
    consumer.send(b"RDY 5\nFIN %s\n" % message.id)
    assert await consumer.silent(0.05)
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"]) == (0, 1)
    assert await consumer.error(b"CLS\n") == "E_INVALID cannot CLS in current state"


async def test_too_many_consumers(start: Start) -> None:
    nsqd = await start(max_channel_consumers=1)
    await nsqd.consumer("t")
    late = await nsqd.connect()
    text = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    assert await late.error(b"SUB t c\n") == text


async def test_sampling(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(identify(sample_rate=10)) == b"OK"
    await client.subscribe("t", ready=2500)
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", *[b"x"] * 2000)) == b"OK"
    await nsqd.until(lambda: nsqd.nsqd.broker.topics["t"].channels["c"].depth == 0)
    assert 120 <= (await nsqd.channel("t"))["in_flight_count"] <= 290


async def test_messages_wait_for_the_buffer_and_a_response_takes_them_along(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(identify(output_buffer_timeout=-1)) == b"OK"
    await client.subscribe("t", ready=10)
    await nsqd.publish("t", b"x")
    assert await client.silent(0.1)
    client.send(b"FIN 0123456789abcdef\n")
    assert (await client.message()).body == b"x"


async def test_a_paused_channel_lets_nothing_out(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=10)
    assert await nsqd.post("/channel/pause?topic=t&channel=c") == (200, b"")
    await nsqd.publish("t", b"x")
    assert await consumer.silent(0.05)
    assert await nsqd.post("/channel/unpause?topic=t&channel=c") == (200, b"")
    assert (await consumer.message()).body == b"x"


# --- after the end --------------------------------------------------------------------------------


async def test_a_failed_consumer_gets_nothing_while_its_error_lingers(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=10)
    assert "E_INVALID" in await consumer.error(b"NONSENSE\n")
    producer = await nsqd.connect()
    for _ in range(3):
        assert await producer.ask(pub("t", b"x")) == b"OK"
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"], stats["clients"]) == (0, 3, [])


async def test_a_deleted_channel_ends_its_consumers(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", "c")
    other = await nsqd.consumer("t", "d")
    assert (await nsqd.post("/channel/delete?topic=t&channel=c"))[0] == 200
    assert await consumer.closed()
    await nsqd.publish("t", b"x")
    assert (await other.message()).body == b"x"


async def test_ephemeral_channel_and_topic_go_with_the_last_consumer(nsqd: Running) -> None:
    consumers = [await nsqd.consumer("t#ephemeral", "c#ephemeral") for _ in range(2)]
    consumers[0].writer.close()
    await nsqd.until(lambda: len(nsqd.nsqd.sessions) == 1)
    assert "t#ephemeral" in nsqd.nsqd.broker.topics
    consumers[1].writer.close()
    await nsqd.until(lambda: "t#ephemeral" not in nsqd.nsqd.broker.topics)


# --- clients that do not read ---------------------------------------------------------------------


async def test_a_slow_consumer_gets_no_more_and_others_go_on(nsqd: Running) -> None:
    sock = non_reading(nsqd.nsqd.tcp_port)
    try:
        sock.sendall(b"  V2SUB t c\nRDY 2500\n")
        producer = await nsqd.connect()
        for _ in range(30):
            assert await producer.ask(mpub("t", *[bytes(100_000)] * 10)) == b"OK"
        await nsqd.until(lambda: any(s._blocked_since is not None for s in nsqd.nsqd.sessions))
        slow = next(s for s in nsqd.nsqd.sessions if s._blocked_since is not None)
        unsent = slow.transport.get_write_buffer_size()
        assert unsent < 8 << 20  # of 30 MB
        other = await nsqd.consumer("t", ready=5)
        for _ in range(20):
            message = await other.message()
            other.send(b"FIN %s\n" % message.id)
        assert slow.transport.get_write_buffer_size() <= unsent
    finally:
        sock.close()


async def test_a_consumer_that_reads_again_goes_on(nsqd: Running) -> None:
    consumer = await nsqd.connect()
    consumer.transport.pause_reading()
    consumer.send(b"SUB t c\nRDY 2500\n")
    producer = await nsqd.connect()
    for _ in range(20):
        assert await producer.ask(mpub("t", *[bytes(100_000)] * 10)) == b"OK"
    await nsqd.until(lambda: any(s._blocked_since is not None for s in nsqd.nsqd.sessions))
    consumer.transport.resume_reading()
    assert await consumer.frame() == (0, b"OK")
    assert len(await consumer.messages(200)) == 200


async def test_what_timed_out_is_not_poured_out_at_once_either(start: Start) -> None:
    nsqd = await start(msg_timeout=300 * MILLISECOND)
    consumer = await nsqd.consumer("t", ready=200)
    producer = await nsqd.connect()
    for _ in range(20):
        assert await producer.ask(mpub("t", *[bytes(100_000)] * 10)) == b"OK"
    await consumer.messages(200)
    consumer.writer.close()
    sock = non_reading(nsqd.nsqd.tcp_port)
    try:
        sock.sendall(b"  V2SUB t c\nRDY 2500\n")
        await nsqd.until(lambda: any(s._blocked_since is not None for s in nsqd.nsqd.sessions))
        slow = next(s for s in nsqd.nsqd.sessions if s._blocked_since is not None)
        assert slow.transport.get_write_buffer_size() < 8 << 20  # of 20 MB
    finally:
        sock.close()


async def test_a_client_that_never_reads_is_cut_off(nsqd: Running) -> None:
    sock = non_reading(nsqd.nsqd.tcp_port)
    try:
        sock.sendall(b"  V2SUB t c\nRDY 2500\n")
        producer = await nsqd.connect()
        for _ in range(20):
            assert await producer.ask(mpub("t", *[bytes(100_000)] * 10)) == b"OK"
        await nsqd.until(lambda: any(s._blocked_since is not None for s in nsqd.nsqd.sessions))
        slow = next(s for s in nsqd.nsqd.sessions if s._blocked_since is not None)
        beat_quickly(slow)
        await nsqd.until(lambda: slow not in nsqd.nsqd.sessions)
    finally:
        sock.close()


async def test_a_client_that_reads_no_answers_is_heard_no_more(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_UNSENT_BYTES_MAX", 20_000)
    client = await nsqd.connect()
    own = await session_of(nsqd, client)
    own.transport.set_write_buffer_limits(high=10_000)
    own.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.transport.pause_reading()
    client.send(b"SUB t c\n")
    bad = b"FIN 0123456789abcdef\n" * 2000
    sent = 0
    while own._blocked_since is None or sent < 20:
        client.send(bad)
        sent += 1
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    unsent = own.transport.get_write_buffer_size()
    assert 20_000 < unsent < 2_000_000
    client.send(bad)
    await asyncio.sleep(0.05)
    assert own.transport.get_write_buffer_size() == unsent
    client.transport.resume_reading()
    complaint = error("E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight")
    left = 10 + (sent + 1) * 2000 * len(complaint)
    while left:
        left -= len(await asyncio.wait_for(client.reader.read(min(left, 1 << 20)), TIMEOUT_S))


async def test_commands_behind_a_slow_sync_are_bounded(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HELD_BYTES_MAX", 10_000)
    disk, gate = slow_disk(monkeypatch)
    nsqd = await start(durability=Durability.FSYNC, data_path="/data")
    client = await nsqd.connect()
    own = await session_of(nsqd, client)
    gate.clear()
    client.send(pub("t", b"first") + b"SUB t c\n")
    await nsqd.until(lambda: own._held is not None)
    for _ in range(100):
        client.send(b"NOP\n" * 5_000)
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert own.reader.unread < 1 << 20  # of 2 MB
    gate.set()
    client.send(pub("t", b"last"))
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3
    assert disk.sync_count > 0


# --- trouble with the disk ------------------------------------------------------------------------


def slow_disk(
    monkeypatch: pytest.MonkeyPatch, within: str = ""
) -> tuple[FaultyDisk, threading.Event]:
    """Give nsqd a disk in memory on which files with this text in their paths sync only while the
    event is set.
    """
    disk, gate = faulty_disk(monkeypatch), threading.Event()
    gate.set()
    sync = FaultyFile.sync

    def waiting(file: FaultyFile) -> None:
        assert within not in file.path or gate.wait(TIMEOUT_S)
        sync(file)

    monkeypatch.setattr(FaultyFile, "sync", waiting)
    return disk, gate


async def test_who_deletes_a_topic_that_is_being_deleted_waits_until_that_is_written(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, gate = slow_disk(monkeypatch, within=".log")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    await nsqd.publish("t", b"x")
    gate.clear()
    client = await nsqd.connect()
    client.send(pub("t", b"y"))
    topic = nsqd.nsqd.broker.topics["t"]
    await nsqd.until(lambda: topic.log.append_offset == 2)
    both = [asyncio.ensure_future(nsqd.nsqd.delete_topic(topic)) for _ in range(2)]
    await asyncio.sleep(0)
    disk.fail("replace", times=-1, within="nsqd.dat")
    gate.set()
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in outcomes] == [StorageError] * 2
    disk.heal()


@pytest.mark.parametrize("code", ["PUB", "MPUB"])
async def test_a_full_disk_refuses_serves_and_recovers(
    start: Start, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    consumer = await nsqd.consumer("t")
    await nsqd.publish("t", b"1", b"2")
    message = await consumer.message()
    disk.fill()
    producer = await nsqd.connect()
    data = pub("t", b"3") if code == "PUB" else mpub("t", b"3")
    text = await producer.error(data)
    assert text.startswith(f"E_{code}_FAILED {code} failed ")
    assert text.endswith("No space left on device")
    assert await producer.closed()
    assert await nsqd.post("/pub?topic=t", b"3") == (503, b'{"message":"DISK_FULL"}')
    status, body = await nsqd.get("/ping")
    assert (status, body[:6]) == (500, b"NOK - ")
    consumer.send(b"FIN %s\n" % message.id)
    assert (await consumer.message()).body == b"2"
    disk.heal()
    await nsqd.publish("t", b"4")
    await nsqd.until(lambda: nsqd.nsqd.health == "OK")
    assert (await nsqd.get("/ping"))[0] == 200


async def test_a_topic_that_cannot_be_made(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    disk.fail("make_directory", times=-1)
    for data, code in ((pub("t", b"x"), "PUB"), (mpub("t", b"x"), "MPUB"), (b"SUB t c\n", "SUB")):
        client = await nsqd.connect()
        assert (await client.error(data)).startswith(f"E_{code}_FAILED {code} failed ")
        assert await client.closed()
    assert await nsqd.post("/pub?topic=t", b"x") == (503, b'{"message":"DISK_FAILED"}')
    disk.heal()
    disk.fail("make_directory", code=errno.EMFILE)
    refused = b'{"message":"TOO_MANY_OPEN_FILES"}'
    assert await nsqd.post("/topic/create?topic=t") == (503, refused)
    disk.fill()
    assert await nsqd.post("/mpub?topic=t", b"x") == (503, b'{"message":"DISK_FULL"}')
    disk.heal()
    await nsqd.publish("t", b"x")


async def test_a_failed_sync_ends_publishing_until_a_restart(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    consumer = await nsqd.consumer("t", ready=5)
    await nsqd.publish("t", b"1")
    disk.fail("sync", within=".log")
    producer = await nsqd.connect()
    assert (await producer.error(pub("t", b"2"))).startswith("E_PUB_FAILED PUB failed ")
    disk.heal()
    producer = await nsqd.connect()
    assert "read-only" in await producer.error(pub("t", b"3"))
    assert await nsqd.post("/pub?topic=t", b"3") == (503, b'{"message":"DISK_FAILED"}')
    assert (await consumer.message()).body == b"1"
    assert (await nsqd.channel("t"))["depth"] == 0, "what was refused is not delivered"
    assert (await nsqd.get("/ping"))[0] == 500


async def test_a_log_that_cannot_be_read_is_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.channel.READ_RETRY_NS", 50 * MILLISECOND)
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data", mem_queue_size=1)
    for number in range(10):
        await nsqd.publish("t", b"%d" % number)
    log = nsqd.nsqd.broker.topics["t"].log
    assert isinstance(log, Log)
    log._tail.clear()
    disk.fail("read", within=".log")
    consumer = await nsqd.consumer("t", ready=20)
    other = await nsqd.connect()
    assert await other.ask(pub("u", b"x")) == b"OK"
    assert len({message.body for message in await consumer.messages(10)}) == 10


async def test_a_restart_delivers_what_was_in_flight_again(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    await nsqd.publish("t", b"1", b"2")
    consumer = await nsqd.consumer("t", ready=2)
    first, second = await consumer.messages(2)
    consumer.send(b"FIN %s\n" % first.id)
    await nsqd.until(lambda: nsqd.nsqd.broker.topics["t"].channels["c"].in_flight_count == 1)
    await nsqd.stop()
    nsqd = await start(data_path=tmp_path, msg_timeout=SECOND)
    consumer = await nsqd.consumer("t", ready=2)
    assert await consumer.message() == second._replace(attempts=2)
    assert await consumer.silent(0.05)

"""Sessions of clients that do not read, and beside a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.nsq.nsqd.tcp import connection
from penstock.nsq.protocol.frames import error
from penstock.storage.durability import Durability
from penstock.storage.log import Log
from tests.programs.nsq.nsqd.conftest import (
    TIMEOUT_S,
    Running,
    Start,
    beat_quickly,
    blocked,
    faulty_disk,
    mpub,
    pub,
    served,
    slow_disk,
)


@contextmanager
def consumer_that_does_not_read(nsqd: Running) -> Iterator[None]:
    """One with a small receive buffer that nobody reads."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", nsqd.nsqd.ports.tcp))
        sock.sendall(b"  V2SUB t c\nRDY 2500\n")
        yield


async def publish_megabytes(nsqd: Running, count: int) -> None:
    producer = await nsqd.connect()
    for _ in range(count):
        assert await producer.ask(mpub("t", *[bytes(100_000)] * 10)) == b"OK"


# --- clients that do not read


async def test_a_slow_consumer_gets_no_more_and_others_go_on(nsqd: Running) -> None:
    with consumer_that_does_not_read(nsqd):
        await publish_megabytes(nsqd, 30)
        slow = await blocked(nsqd)
        unsent = slow.transport.get_write_buffer_size()
        assert unsent < 8 << 20  # of 30 MB
        other = await nsqd.consumer("t", ready=5)
        for _ in range(20):
            message = await other.message()
            other.send(b"FIN %s\n" % message.id)
        assert slow.transport.get_write_buffer_size() <= unsent


async def test_what_timed_out_is_not_poured_out_at_once_either(start: Start) -> None:
    nsqd = await start(msg_timeout=300 * MILLISECOND)
    consumer = await nsqd.consumer("t", ready=200)
    await publish_megabytes(nsqd, 20)
    await consumer.messages(200)
    consumer.writer.close()
    with consumer_that_does_not_read(nsqd):
        slow = await blocked(nsqd)
        assert slow.transport.get_write_buffer_size() < 8 << 20  # of 20 MB


async def test_a_client_that_never_reads_is_cut_off(nsqd: Running) -> None:
    with consumer_that_does_not_read(nsqd):
        await publish_megabytes(nsqd, 20)
        slow = await blocked(nsqd)
        session = slow.session
        beat_quickly(slow)
        await nsqd.until(lambda: session not in nsqd.nsqd.sessions)


async def test_a_client_that_reads_no_answers_is_heard_no_more(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_UNSENT_BYTES_MAX", 20_000)
    client = await nsqd.connect()
    own = await served(nsqd, client)
    own.transport.set_write_buffer_limits(high=10_000)
    own.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.transport.pause_reading()
    client.send(b"SUB t c\n")
    bad = b"FIN 0123456789abcdef\n" * 2000
    sent = 0
    while own.blocked_since is None or sent < 20:
        client.send(bad)
        sent += 1
        await asyncio.sleep(0)
    await nsqd.until(lambda: not own.transport.is_reading())
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
    own = await served(nsqd, client)
    gate.clear()
    client.send(pub("t", b"first") + b"SUB t c\n")
    await nsqd.until(lambda: own.phase is connection.Phase.BEHIND)
    for _ in range(100):
        client.send(b"NOP\n" * 5_000)
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    assert own.reader.unread < 1 << 20  # of 2 MB
    gate.set()
    client.send(pub("t", b"last"))
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3
    assert disk.sync_count > 0


# --- trouble with the disk


async def test_who_deletes_a_topic_that_is_being_deleted_waits_until_that_is_written(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, gate = slow_disk(monkeypatch, within=".log")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    await nsqd.publish("t", b"x")
    store = nsqd.nsqd.node.broker.store
    await nsqd.until(lambda: b'"t"' in (store.read_file("nsqd.dat") or b""))
    gate.clear()
    client = await nsqd.connect()
    client.send(pub("t", b"y"))
    topic = nsqd.nsqd.node.broker.topics["t"]
    await nsqd.until(lambda: topic.log.append_offset == 2)
    both = [asyncio.ensure_future(nsqd.nsqd.node.registry.delete_topic(topic)) for _ in range(2)]
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
    await nsqd.until(lambda: nsqd.nsqd.node.health == "OK")
    assert (await nsqd.get("/ping"))[0] == 200


@pytest.mark.parametrize("publish", [pub, mpub])
async def test_a_disk_that_fills_up_between_two_lone_publishes(
    start: Start, monkeypatch: pytest.MonkeyPatch, publish: Callable[[str, bytes], bytes]
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    producer = await nsqd.connect()
    for _ in range(3):
        assert await producer.ask(publish("t", b"x")) == b"OK"
    disk.fill()
    text = await producer.error(publish("t", b"x"))
    code = "PUB" if publish is pub else "MPUB"
    assert text.startswith(f"E_{code}_FAILED {code} failed ")
    assert await producer.closed()
    assert (await nsqd.topic("t"))["message_count"] == 3
    assert (await nsqd.get("/ping"))[0] == 500


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
    monkeypatch.setattr("penstock.broker.channels.channel.READ_RETRY_NS", 50 * MILLISECOND)
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data", mem_queue_size=1)
    for number in range(10):
        await nsqd.publish("t", b"%d" % number)
    log = nsqd.nsqd.node.broker.topics["t"].log
    assert isinstance(log, Log)
    log._tail.clear()
    disk.fail("read", within=".log")
    consumer = await nsqd.consumer("t", ready=20)
    other = await nsqd.connect()
    assert await other.ask(pub("u", b"x")) == b"OK"
    assert len({message.body for message in await consumer.messages(10)}) == 10

"""An nsqd inside the test's own loop, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.net.http.client.once import request
from penstock.node import opening
from penstock.nsq.nsqd.daemon import Nsqd
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.tcp.connection import Connection as Served
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.disk import FaultyDisk, FaultyFile
from tests import nsqds

TIMEOUT_S = 30.0
BEAT_MS = 50
MILLISECOND = 10**6
PATIENCE_NS = 60 * 10**9
"""Time for what nsqd asks of others, where a test is not about it."""


class Message(NamedTuple):
    timestamp: int
    attempts: int
    id: bytes
    body: bytes


class Client:
    """A raw TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self.writer.transport)

    def send(self, data: bytes) -> None:
        if data:
            self.writer.write(data)

    async def frame(self) -> tuple[int, bytes]:
        """Type and data of the next frame, heartbeats included."""
        async with asyncio.timeout(TIMEOUT_S):
            size, kind = struct.unpack(">ii", await self.reader.readexactly(8))
            return kind, await self.reader.readexactly(size - 4)

    async def ask(self, data: bytes) -> bytes:
        """Send; the data of the next frame, which must be a response."""
        self.send(data)
        kind, answer = await self.frame()
        assert kind == 0, answer
        return answer

    async def error(self, data: bytes = b"") -> str:
        """Send; the text of the next frame, which must be an error."""
        self.send(data)
        kind, answer = await self.frame()
        assert kind == 1, answer
        return answer.decode()

    async def message(self) -> Message:
        """The next frame, which must be a message."""
        kind, data = await self.frame()
        assert kind == 2, data
        timestamp, attempts = struct.unpack_from(">qH", data)
        return Message(timestamp, attempts, data[10:26], data[26:])

    async def messages(self, count: int) -> list[Message]:
        return [await self.message() for _ in range(count)]

    async def subscribe(self, topic: str, channel: str = "c", ready: int = 1) -> None:
        assert await self.ask(f"SUB {topic} {channel}\n".encode()) == b"OK"
        self.send(f"RDY {ready}\n".encode())

    async def silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        try:
            await asyncio.wait_for(self.reader.readexactly(1), seconds)
        except TimeoutError:
            return True
        return False

    async def closed(self) -> bool:
        """Whether the connection ends with nothing more to read."""
        try:
            return await asyncio.wait_for(self.reader.read(), TIMEOUT_S) == b""
        except ConnectionError:
            return True


def pub(topic: str, body: bytes) -> bytes:
    return f"PUB {topic}\n".encode() + struct.pack(">i", len(body)) + body


def mpub_body(*bodies: bytes) -> bytes:
    parts = [struct.pack(">i", len(body)) + body for body in bodies]
    return struct.pack(">i", len(bodies)) + b"".join(parts)


def mpub(topic: str, *bodies: bytes) -> bytes:
    body = mpub_body(*bodies)
    return f"MPUB {topic}\n".encode() + struct.pack(">i", len(body)) + body


def dpub(topic: str, ms: int, body: bytes) -> bytes:
    return f"DPUB {topic} {ms}\n".encode() + struct.pack(">i", len(body)) + body


def identify(**fields: Any) -> bytes:
    body = json.dumps(fields).encode()
    return b"IDENTIFY\n" + struct.pack(">i", len(body)) + body


class Running:
    """The daemon, and ways to talk to it."""

    def __init__(self, nsqd: Nsqd) -> None:
        self.nsqd = nsqd
        self._clients: list[Client] = []
        self._stopped = False

    async def connect(self, magic: bytes = MAGIC_V2, limit: int = 2**16) -> Client:
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self.nsqd.ports.tcp, limit=limit)
        )
        client.send(magic)
        self._clients.append(client)
        return client

    async def consumer(self, topic: str, channel: str = "c", ready: int = 1) -> Client:
        client = await self.connect()
        await client.subscribe(topic, channel, ready)
        return client

    async def publish(self, topic: str, *bodies: bytes) -> None:
        client = await self.connect()
        for body in bodies:
            assert await client.ask(pub(topic, body)) == b"OK"
        client.writer.close()

    async def http(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self.nsqd.ports.http}{path}"
        found = await request(method, url, TIMEOUT_S, body=body)
        return found.status, found.body

    async def get(self, path: str) -> tuple[int, bytes]:
        return await self.http("GET", path)

    async def post(self, path: str, body: bytes = b"") -> tuple[int, bytes]:
        return await self.http("POST", path, body)

    async def json(self, path: str) -> Any:
        status, body = await self.get(path)
        assert status == 200, body
        return json.loads(body)

    async def topic(self, name: str) -> dict[str, Any]:
        """What /stats says of a topic."""
        found = await self.json(f"/stats?format=json&topic={name}")
        topic: dict[str, Any] = found["topics"][0]
        return topic

    async def channel(self, topic: str, name: str = "c") -> dict[str, Any]:
        """What /stats says of a channel."""
        channels = (await self.topic(topic))["channels"]
        channel: dict[str, Any] = next(each for each in channels if each["channel_name"] == name)
        return channel

    async def until(self, check: Callable[[], Awaitable[bool] | bool]) -> None:
        """Wait until the check holds."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                held = check()
                if held is True or (held is not False and await held):
                    return
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            await nsqds.stop(self.nsqd)
            for client in self._clients:
                client.writer.close()
            await asyncio.sleep(0.01)


Start = Callable[..., Awaitable[Running]]


def faulty_disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    """The disk of every nsqd that is started from now on, with /data on it."""
    disk = FaultyDisk("/data")
    monkeypatch.setattr(opening, "PatientDisk", lambda: disk)
    return disk


def options(data_path: Path | str, **changes: Any) -> NsqdOptions:
    """The options of an nsqd on free ports."""
    addresses = {"tcp_address": "127.0.0.1:0", "http_address": "127.0.0.1:0"}
    return NsqdOptions(
        **{
            **addresses,
            "data_path": str(data_path),
            "broadcast_address": "127.0.0.1",
            "node_id": 7,
            "http_client_connect_timeout": PATIENCE_NS,
            "http_client_request_timeout": PATIENCE_NS,
            **changes,
        }
    )


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts an nsqd with options changed; all are stopped in the end."""
    started = []

    async def start_one(clock: Clock = SYSTEM_CLOCK, **changes: Any) -> Running:
        path = changes.pop("data_path", tmp_path)
        running = Running(await nsqds.start(options(path, **changes), clock))
        started.append(running)
        return running

    yield start_one
    for running in started:
        await running.stop()


@pytest.fixture
async def nsqd(start: Start) -> Running:
    """An nsqd with default options."""
    return await start()


@pytest.fixture
async def filled(start: Start) -> Running:
    """Topic t with 10 segments of one batch of 10 messages each."""
    nsqd = await start(max_bytes_per_file=1000)
    producer = await nsqd.connect()
    for number in range(10):
        bodies = [b"%03d" % (number * 10 + place) + bytes(100) for place in range(10)]
        assert await producer.ask(mpub("t", *bodies)) == b"OK"
    return nsqd


async def trim(nsqd: Running) -> None:
    await nsqd.nsqd.node.commits.settle()  # nothing is deleted during a sync
    nsqd.nsqd.node.broker.trim()


def consume_all(nsqd: Running) -> None:
    """Nobody needs the messages any more."""
    topic = nsqd.nsqd.node.broker.topics["t"]
    topic.channel("gone")
    topic.distribute()
    topic.channels["gone"].empty()


def beat_quickly(own: Served, ms: int = BEAT_MS) -> None:
    """Heartbeats faster than IDENTIFY allows."""
    own.identity = dataclasses.replace(own.identity, heartbeat_interval=ms * MILLISECOND)
    own._schedule_beat(ms * MILLISECOND)


async def served(running: Running, client: Client) -> Served:
    """The other end of a client's connection."""
    end = f":{client.writer.get_extra_info('sockname')[1]}"

    def found() -> list[Served]:
        ours = [session.connection for session in running.nsqd.sessions]
        return [each for each in ours if each.remote_address.endswith(end)]

    await running.until(lambda: bool(found()))
    return found()[0]


async def blocked(running: Running) -> Served:
    """The connection whose client has stopped to read."""

    def found() -> list[Served]:
        ours = [session.connection for session in running.nsqd.sessions]
        return [each for each in ours if each.blocked_since is not None]

    await running.until(lambda: bool(found()))
    return found()[0]


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

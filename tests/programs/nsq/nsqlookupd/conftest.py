"""A nsqlookupd inside the test's own loop, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator

import pytest

from penstock.core.units import SECOND
from penstock.net.http.client.once import get, post
from penstock.nsq.nsqlookupd.daemon import Nsqlookupd
from penstock.nsq.nsqlookupd.options import LookupdOptions
from penstock.nsq.nsqlookupd.protocol import MAGIC_V1, identify
from penstock.testing.clock import FakeClock

PEER = {
    "hostname": "h1",
    "broadcast_address": "127.0.0.1",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}
TIMEOUT_S = 30.0


class Peer:
    """An nsqd's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, data: bytes) -> bytes:
        """Sends and returns the next answer's data."""
        self.writer.write(data)
        return await self.read()

    async def read(self) -> bytes:
        size = await asyncio.wait_for(self._reader.readexactly(4), TIMEOUT_S)
        return await self._reader.readexactly(struct.unpack(">i", size)[0])

    async def identify(self) -> bytes:
        return await self.ask(identify(json.dumps(PEER).encode()))

    async def ended(self) -> bool:
        return await asyncio.wait_for(self._reader.read(), TIMEOUT_S) == b""


class Running:
    """The daemon, and ways to talk to it."""

    def __init__(self, daemon: Nsqlookupd, clock: FakeClock) -> None:
        self.daemon = daemon
        self.clock = clock
        self._peers: list[Peer] = []

    async def connect(self, magic: bytes = MAGIC_V1) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.daemon.tcp_port))
        peer.writer.write(magic)
        self._peers.append(peer)
        return peer

    async def get(self, path: str) -> tuple[int, str]:
        found = await get(f"http://127.0.0.1:{self.daemon.http_port}{path}", TIMEOUT_S)
        return found.status, found.body.decode()

    async def post(self, path: str) -> tuple[int, str]:
        found = await post(f"http://127.0.0.1:{self.daemon.http_port}{path}", TIMEOUT_S)
        return found.status, found.body.decode()

    async def close(self) -> None:
        await self.daemon.close()
        for peer in self._peers:
            peer.writer.close()
        await asyncio.sleep(0.01)


@pytest.fixture
async def lookupd() -> AsyncIterator[Running]:
    clock = FakeClock()
    options = LookupdOptions(
        tcp_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        broadcast_address="me",
        tombstone_lifetime=2 * SECOND,
    )
    running = Running(await Nsqlookupd.start(options, clock), clock)
    yield running
    await running.close()

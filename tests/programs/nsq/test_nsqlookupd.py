"""A whole nsqlookupd beyond its recorded exchanges: ports, times, what it logs.

It runs inside the test's own loop, with a clock that the test moves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator

import pytest

from penstock import __version__
from penstock.core.units import SECOND
from penstock.net.http.client.once import HttpError, get, post
from penstock.net.tcp import ListenError
from penstock.nsq.nsqlookupd import tcp
from penstock.nsq.nsqlookupd.daemon import Nsqlookupd
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.nsq.nsqlookupd.protocol import MAGIC_V1, PING, identify, register, unregister
from penstock.testing.clock import FakeClock

PEER = {"hostname": "h1", "broadcast_address": "127.0.0.1", "tcp_port": 4150, "http_port": 4151,
        "version": "1.3.0"}  # fmt: skip
ANYWHERE = "127.0.0.1:0"
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

    async def until_nodes(self, count: int) -> None:
        for _ in range(6000):
            if len(json.loads((await self.get("/nodes"))[1])["producers"]) == count:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"never {count} nodes")

    async def close(self) -> None:
        await self.daemon.close()
        for peer in self._peers:
            peer.writer.close()
        await asyncio.sleep(0.01)


@pytest.fixture
async def lookupd() -> AsyncIterator[Running]:
    clock = FakeClock()
    options = LookupdOptions(
        tcp_address=ANYWHERE,
        http_address=ANYWHERE,
        broadcast_address="me",
        tombstone_lifetime=2 * SECOND,
    )
    running = Running(await Nsqlookupd.start(options, clock), clock)
    yield running
    await running.close()


async def test_close_ends_listeners_and_connections(lookupd: Running) -> None:
    peer = await lookupd.connect()
    assert await peer.ask(PING) == b"OK"
    await lookupd.daemon.close()
    assert await peer.ended()
    with pytest.raises(HttpError):
        await lookupd.get("/ping")


async def test_a_taken_port_leaves_the_other_closed(lookupd: Running) -> None:
    http, tcp = (
        f"127.0.0.1:{port}" for port in (lookupd.daemon.http_port, lookupd.daemon.tcp_port)
    )
    for options, taken in (
        (LookupdOptions(tcp_address=ANYWHERE, http_address=http), http),
        (LookupdOptions(tcp_address=tcp), tcp),
    ):
        with pytest.raises(ListenError, match=rf"^listen \({taken}\) failed - "):
            await Nsqlookupd.start(options)


async def test_pages(lookupd: Running) -> None:
    info = f'{{"version":"1.3.0","penstock_version":"{__version__}"}}'
    assert await lookupd.get("/info") == (200, info)
    assert await lookupd.get("/debug") == (200, "{}")
    assert (await lookupd.get("/debug/pprof"))[0] == 200
    assert await lookupd.post("/topic/create?topic=%25zz%zz") == (
        400,
        '{"message":"INVALID_REQUEST"}',
    )


async def test_an_nsqds_life(lookupd: Running, caplog: pytest.LogCaptureFixture) -> None:
    peer = await lookupd.connect()
    described = json.loads(await peer.identify())
    assert described["broadcast_address"] == "me"
    assert described["tcp_port"] == lookupd.daemon.tcp_port
    assert await peer.ask(register("t", "c") + unregister("t")) == b"OK"
    assert await peer.read() == b"OK"
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "unexpected UNREGISTER channel:c of topic:t" in warning.getMessage()
    await lookupd.until_nodes(1)
    lookupd.clock.advance(301 * SECOND)
    await lookupd.until_nodes(0)
    assert await peer.ask(PING) == b"OK", "it is active again"
    await lookupd.until_nodes(1)
    peer.writer.close()
    await lookupd.until_nodes(0)


async def test_a_tombstone_from_its_laying_to_its_end(lookupd: Running) -> None:
    peer = await lookupd.connect()
    await peer.identify()
    await peer.ask(register("t"))
    assert await lookupd.post("/topic/tombstone?topic=t&node=127.0.0.1:4151") == (200, "")
    assert await lookupd.get("/lookup?topic=t") == (200, '{"channels":[],"producers":[]}')
    (entry,) = json.loads((await lookupd.get("/debug"))[1])["topic:t:"]
    assert (entry["tombstoned"], entry["tombstoned_at"]) == (True, lookupd.clock.wall_ns())
    lookupd.clock.advance(2 * SECOND)
    (producer,) = json.loads((await lookupd.get("/lookup?topic=t"))[1])["producers"]
    assert list(producer) == ["remote_address", *PEER, "topology_zone", "topology_region"]


async def test_an_error_ends_the_connection_after_its_text(lookupd: Running) -> None:
    peer = await lookupd.connect()
    assert await peer.ask(PING + b"NOPE\n" + PING) == b"OK"
    assert await peer.read() == b"E_INVALID invalid command NOPE"
    assert await peer.ended()
    peer = await lookupd.connect(b"  V2")
    assert await peer.ask(b"x" * 100_000) == b"E_BAD_PROTOCOL"


async def test_who_never_identifies_is_let_go(
    lookupd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "UNIDENTIFIED_LIMIT_S", 0.5)
    silent, identified = await lookupd.connect(b""), await lookupd.connect()
    await identified.identify()
    assert await silent.ended()
    assert await identified.ask(PING) == b"OK"

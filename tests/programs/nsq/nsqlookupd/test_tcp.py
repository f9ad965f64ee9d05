from __future__ import annotations

import asyncio
import json
import logging

import pytest

from penstock.nsq.nsqlookupd import tcp
from penstock.nsq.nsqlookupd.protocol import PING, register, unregister

from .conftest import Running


async def until_nodes(lookupd: Running, count: int) -> None:
    for _ in range(6000):
        _, body = await lookupd.get("/nodes")
        if len(json.loads(body)["producers"]) == count:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never {count} nodes")


async def test_an_nsqds_life(lookupd: Running) -> None:
    peer = await lookupd.connect()
    assert await peer.ask(PING) == b"OK"
    described = json.loads(await peer.identify())
    assert list(described) == ["broadcast_address", "hostname", "http_port", "tcp_port", "version"]
    assert described["broadcast_address"] == "me"
    assert described["tcp_port"] == lookupd.daemon.tcp_port
    assert await peer.ask(register("t", "c")) == b"OK"
    assert "127.0.0.1" in (await lookupd.get("/lookup?topic=t"))[1]
    assert await peer.ask(unregister("t", "c") + unregister("t")) == b"OK"
    assert await peer.read() == b"OK"
    assert await lookupd.get("/lookup?topic=t") == (200, '{"channels":["c"],"producers":[]}')
    await until_nodes(lookupd, 1)
    peer.writer.close()
    await until_nodes(lookupd, 0)


async def test_ping_keeps_a_producer_active(lookupd: Running) -> None:
    peer = await lookupd.connect()
    await peer.identify()
    lookupd.clock.advance(301 * 10**9)
    await until_nodes(lookupd, 0)
    assert await peer.ask(PING) == b"OK"
    await until_nodes(lookupd, 1)


async def test_an_error_ends_the_connection_after_its_text(lookupd: Running) -> None:
    peer = await lookupd.connect()
    assert await peer.ask(PING + b"NOPE\n" + PING) == b"OK"
    assert await peer.read() == b"E_INVALID invalid command NOPE"
    assert await peer.ended()
    peer = await lookupd.connect(b"  V2")
    assert await peer.ask(b"x" * 100_000) == b"E_BAD_PROTOCOL"


async def test_the_end_inside_a_body(lookupd: Running) -> None:
    peer = await lookupd.connect()
    peer.writer.write(b"IDENTIFY\n\0\0")
    peer.writer.write_eof()
    assert await peer.read() == b"E_BAD_BODY IDENTIFY failed to read body size"
    assert await peer.ended()


async def test_who_never_identifies_is_let_go(
    lookupd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "UNIDENTIFIED_LIMIT_S", 0.5)
    silent, identified = await lookupd.connect(b""), await lookupd.connect()
    await identified.identify()
    assert await silent.ended()
    assert await identified.ask(PING) == b"OK"


async def test_unexpected_unregister_is_told(
    lookupd: Running, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await lookupd.connect()
    await peer.identify()
    await peer.ask(register("t", "c"))
    await peer.ask(unregister("t"))
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "unexpected UNREGISTER channel:c of topic:t" in warnings[0].getMessage()

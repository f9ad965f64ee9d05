"""The TCP port of a node that is no primary."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.nsq.nsqd.tcp import refusal_port
from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort
from penstock.nsq.protocol import frames


class Pipe:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def test_each_client_gets_one_error_when_it_has_spoken() -> None:
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    client = cast(asyncio.Protocol, port())
    client.connection_made(cast(asyncio.Transport, pipe))
    assert pipe.written == b""
    client.data_received(b"  V2")
    client.data_received(b"IDENTIFY\n")
    assert pipe.written == frames.error("E_FOLLOWER go there")
    assert pipe.closed
    client.connection_lost(None)
    client.data_received(b"more")


async def test_silent_clients_are_closed_with_the_port() -> None:
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    cast(asyncio.Protocol, port()).connection_made(cast(asyncio.Transport, pipe))
    port.close_connections()
    assert pipe.closed
    assert pipe.written == b""


async def test_a_client_that_says_nothing_is_closed_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusal_port, "SILENCE_S", 0.01)
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    client = cast(asyncio.Protocol, port())
    client.connection_made(cast(asyncio.Transport, pipe))
    for _ in range(1000):
        if pipe.closed:
            break
        await asyncio.sleep(0.01)
    assert pipe.closed
    client.connection_lost(None)
    assert not port.connections

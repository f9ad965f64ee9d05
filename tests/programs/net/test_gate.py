from __future__ import annotations

import asyncio
import logging
import os
import resource
import subprocess
import sys

import pytest

from penstock.net import gate, tcp
from penstock.net.gate import Gate

LOG = logging.getLogger("penstock.test")


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


def allow(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Make new gates see a limit that leaves room for this many more handles.

    Handles are given out from the lowest free number on, and there are gaps among those in use.
    """
    free = [os.dup(0) for _ in range(more)]
    limit = free[-1] + 1
    for handle in free:
        os.close(handle)
    monkeypatch.setattr(gate, "RESERVED", 0)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, 10_000))


async def echoed(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"x")
        return await asyncio.wait_for(reader.read(1), 30)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_connections_leave_some_handles_and_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allow(monkeypatch, 12)
    listener = await tcp.listen(Echo, "127.0.0.1:0", "TCP", LOG)
    held = [os.dup(0) for _ in range(30)]
    assert await echoed(listener.port) == b""
    for handle in held:
        os.close(handle)
    assert await echoed(listener.port) == b"x"
    await listener.close()


async def test_one_line_a_minute_tells_how_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1000, 10_000))
    full = Gate(Echo, "TCP", LOG)
    assert full.admit(1000 - gate.RESERVED - 1)
    for _ in range(5):
        assert not full.admit(1000 - gate.RESERVED)
    text = "TCP: too many open files, refused 1 connections"
    assert [message[: len(text)] for message in caplog.messages] == [text]
    full._quiet_until = 0
    assert not full.admit(999)
    assert "refused 5 connections" in caplog.messages[1]


def test_where_there_are_few_handles_a_quarter_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 100))
    few = Gate(Echo, "TCP", LOG)
    assert few.admit(74)


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    script = (
        "import resource\n"
        "from penstock.net.gate import raise_file_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))\n"
        "raise_file_limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "(200, 200)\n"

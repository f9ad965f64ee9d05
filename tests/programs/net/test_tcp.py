"""Listening and dialling: ports, gates before them, local addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.net import gate, tcp
from penstock.net.gate import Gate
from penstock.net.local_address import local_address
from tools.harness.ports import unused_address


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()


async def echoed(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"hi")
    data = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await writer.wait_closed()
    return data


async def test_listens_and_tells_the_real_port(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock"):
        listener = await tcp.listen(Echo, "127.0.0.1:0", "HTTP")
    assert listener.port > 0
    assert f"HTTP: listening on 127.0.0.1:{listener.port}" in caplog.messages
    assert await echoed("127.0.0.1", listener.port) == b"hi"
    await listener.close()
    await listener.close()
    with pytest.raises(OSError):
        await echoed("127.0.0.1", listener.port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0", "[::]:0"])
async def test_the_wildcard_takes_both_families(address: str) -> None:
    listener = await tcp.listen(Echo, address)
    assert listener.address == f"[::]:{listener.port}"
    assert await echoed("127.0.0.1", listener.port) == b"hi"
    assert await echoed("::1", listener.port) == b"hi"
    await listener.close()


async def test_without_ipv6_the_wildcard_is_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    listener = await tcp.listen(Echo, ":0")
    assert listener.address == f"0.0.0.0:{listener.port}"
    await listener.close()


async def test_a_name_with_both_families_is_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    sock = tcp.bind("localhost:0")
    assert sock.getsockname()[0] == "127.0.0.1"
    sock.close()


async def test_accepted_sockets_have_gos_options() -> None:
    accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    class Peek(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport.get_extra_info("socket"))

    listener = await tcp.listen(Peek, "127.0.0.1:0")
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    sock = await accepted
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == tcp.KEEP_ALIVE_S
    writer.close()
    await listener.close()
    await asyncio.sleep(0.01)


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = await tcp.listen(Echo, str(path))
    assert (listener.port, listener.address) == (-1, str(path))
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"hi")
    assert await reader.read() == b"hi"
    writer.close()
    await listener.close()
    assert not path.exists()


async def test_a_taken_port_is_one_clear_line() -> None:
    listener = await tcp.listen(Echo, "127.0.0.1:0")
    address = f"127.0.0.1:{listener.port}"
    with pytest.raises(tcp.ListenError) as caught:
        await tcp.listen(Echo, address)
    text = f"listen ({address}) failed - listen tcp {address}: bind: address already in use"
    assert str(caught.value) == text
    await listener.close()


async def test_an_address_is_free_or_refused_like_listening_on_it() -> None:
    address = unused_address()
    listener = await tcp.listen(Echo, address)
    with pytest.raises(tcp.ListenError, match="address already in use"):
        tcp.check_free(address)
    await listener.close()
    tcp.check_free(address)


def test_a_unix_socket_is_not_made_to_see_if_it_can_be(tmp_path: Path) -> None:
    tcp.check_free(str(tmp_path / "socket"))
    assert list(tmp_path.iterdir()) == []


async def test_a_taken_wildcard_port() -> None:
    listener = await tcp.listen(Echo, ":0")
    with pytest.raises(tcp.ListenError, match="address already in use"):
        await tcp.listen(Echo, f"0.0.0.0:{listener.port}")
    await listener.close()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("foo", "listen tcp foo: address foo: missing port in address"),
        ("127.0.0.1:x", "listen tcp 127.0.0.1:x: address x: invalid port"),
        ("/no/such/place", "listen unix /no/such/place: bind: no such file or directory"),
    ],
)
async def test_a_wrong_address(address: str, reason: str) -> None:
    with pytest.raises(tcp.ListenError) as caught:
        await tcp.listen(Echo, address)
    assert str(caught.value) == f"listen ({address}) failed - {reason}"


LOG = logging.getLogger("penstock.test")


class Gated(asyncio.Protocol):
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


async def echoed_behind(port: int) -> bytes:
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
    listener = await tcp.listen(Gated, "127.0.0.1:0", "TCP", LOG)
    held = [os.dup(0) for _ in range(30)]
    assert await echoed_behind(listener.port) == b""
    for handle in held:
        os.close(handle)
    assert await echoed_behind(listener.port) == b"x"
    await listener.close()


async def test_one_line_a_minute_tells_how_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1000, 10_000))
    full = Gate(Gated, "TCP", LOG)
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
    few = Gate(Gated, "TCP", LOG)
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


# --- The machine's own address -------------------------------------------------------------------


def test_it_is_an_address_of_this_machine() -> None:
    address = local_address()
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    with socket.socket(family) as sock:
        sock.bind((address, 0))  # fails for the address of another machine


def test_without_a_network_it_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", refuse)
    assert local_address() == "127.0.0.1"

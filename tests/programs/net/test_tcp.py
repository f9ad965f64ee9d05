from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from penstock.net import tcp
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

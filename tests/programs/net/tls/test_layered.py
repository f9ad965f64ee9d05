"""Layers on asyncio connections: both ends are ours, so these are tests of a client as well."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import cast

import pytest

from penstock.net import tcp
from penstock.net.tls import layered
from penstock.net.tls.layered import LayeredTransport
from penstock.net.tls.layers import PIECE, Layer, LayerError
from penstock.net.tls.tls_layer import ServerTls, TlsError, TlsLayer
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import SnappyLayer
from tests.unit.net.certificates import Certificates

TIMEOUT_S = 30.0


class End(asyncio.Protocol):
    """One end of a connection; notes what it is told."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.eof = False
        self.size_at_eof = 0
        self.garbage: LayerError | None = None
        self.lost = asyncio.Event()
        self.shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.raw: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.raw = cast(asyncio.Transport, transport)
        self.transport = LayeredTransport(self.raw, self, self.on_garbage)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> bool:
        self.eof = True
        self.size_at_eof = sum(map(len, self.pieces))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def on_garbage(self, error: LayerError) -> None:
        self.garbage = error
        self.transport.close()

    def on_shaken(self, error: TlsError | None) -> None:
        if error is None:
            self.shaken.set_result(None)
        else:
            self.shaken.set_exception(error)

    async def until(self, size: int) -> bytes:
        """All that came, once it is so long."""
        async with asyncio.timeout(TIMEOUT_S):
            while sum(map(len, self.pieces)) < size:  # noqa: ASYNC110  # told piece by piece
                await asyncio.sleep(0.001)
        return b"".join(self.pieces)


Ends = tuple[End, End]


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """A server's and a client's end, no layers yet."""
    accepted: asyncio.Queue[End] = asyncio.Queue()

    def accept() -> End:
        end = End()
        accepted.put_nowait(end)
        return end

    listener = await tcp.listen(accept, "127.0.0.1:0")
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(End, "127.0.0.1", listener.port)
    server = await accepted.get()
    yield server, client
    for end in (server, client):
        end.raw.abort()
    await listener.close()


async def shake(ends: Ends, files: Certificates) -> tuple[TlsLayer, TlsLayer]:
    server, client = ends
    layers = (
        ServerTls(files.cert, files.key).layer(),
        TlsLayer(files.context(), server_name="localhost"),
    )
    for end, layer in zip(ends, layers, strict=True):
        end.transport.start_tls(layer, b"", end.on_shaken)
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(server.shaken, client.shaken)
    return layers


@pytest.mark.parametrize("inner", [None, SnappyLayer, DeflateLayer])
@pytest.mark.parametrize("tls", [False, True])
async def test_every_stack_carries_both_ways(
    ends: Ends, files: Certificates, tls: bool, inner: type[Layer] | None
) -> None:
    outer = await shake(ends, files) if tls else (None, None)
    for end, layer in zip(ends, outer, strict=True):
        stack: list[Layer] = [] if layer is None else [layer]
        end.transport.set_layers([*stack, *([inner()] if inner else [])] or [DeflateLayer()])
    text = b"".join(b"line %d\n" % number for number in range(100_000))
    server, client = ends
    for one, other in ((server, client), (client, server)):
        one.transport.write(text[:10])
        one.transport.writelines([memoryview(text)[10:500_000], text[500_000:]])
        assert await other.until(len(text)) == text
    client.transport.close()
    await server.lost.wait()
    assert server.eof


async def test_what_one_pass_writes_goes_through_the_layers_once(ends: Ends) -> None:
    server, client = ends
    calls = []

    class Noting(DeflateLayer):
        def send(self, data: bytes | bytearray | memoryview) -> bytes:
            calls.append(bytes(data))
            return super().send(data)

    server.transport.set_layers([Noting()])
    client.transport.set_layers([DeflateLayer()])
    for number in range(5):
        server.transport.write(b"%d" % number)
    assert server.transport.get_write_buffer_size() == 5
    assert await client.until(5) == b"01234"
    assert calls == [b"01234"]


async def test_new_layers_leave_what_was_written_before_in_the_old_ones(ends: Ends) -> None:
    server, client = ends
    server.transport.set_layers([DeflateLayer()])
    server.transport.write(b"deflated")
    server.transport.set_layers([SnappyLayer()])
    server.transport.write(b"in snappy")
    client.transport.set_layers([DeflateLayer()])
    async with asyncio.timeout(TIMEOUT_S):
        while not client.pieces and client.garbage is None:  # noqa: ASYNC110  # told by neither
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    # The deflate stream never ends, so a reader that is not told of the change finds garbage.
    assert client.pieces == [b"deflated"] or client.garbage is not None


async def test_pieces_come_one_a_pass_and_none_while_paused(ends: Ends) -> None:
    server, client = ends
    server.transport.set_layers([DeflateLayer()])
    server.transport.pause_reading()
    assert not server.transport.is_reading()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(bytes(32 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    client.raw.write(bomb)
    await asyncio.sleep(0.05)
    assert server.pieces == []
    server.transport.resume_reading()
    passes = 0
    while sum(map(len, server.pieces)) < 32 << 20:
        before = len(server.pieces)
        await asyncio.sleep(0)
        assert len(server.pieces) - before <= 1
        passes += 1
    assert passes >= (32 << 20) // PIECE
    assert max(map(len, server.pieces)) <= PIECE


async def test_a_paused_end_stops_reading_from_the_socket(ends: Ends) -> None:
    server, client = ends
    server.transport.set_layers([DeflateLayer()])
    server.transport.pause_reading()
    client.raw.write(bytes(64 << 20))
    await asyncio.sleep(0.2)
    assert client.raw.get_write_buffer_size() > 32 << 20


async def test_garbage_is_told_once_and_nothing_after_it(ends: Ends) -> None:
    server, client = ends
    server.transport.set_layers([SnappyLayer()])
    client.raw.write(b"garbage" * 100)
    async with asyncio.timeout(TIMEOUT_S):
        await server.lost.wait()
    assert server.pieces == []
    assert "snappy" in str(server.garbage)


async def test_the_end_of_input_comes_after_all_pieces(ends: Ends) -> None:
    server, client = ends
    server.transport.set_layers([DeflateLayer()])
    text = bytes(5 << 20)
    client.transport.set_layers([DeflateLayer()])
    client.transport.write(text)
    client.transport.write_eof()
    client.transport.write(b"too late")
    async with asyncio.timeout(TIMEOUT_S):
        await server.lost.wait()
    assert server.size_at_eof == len(text)
    assert b"".join(server.pieces) == text


async def test_a_farewell_inside_tls_is_an_end(ends: Ends, files: Certificates) -> None:
    server, client = ends
    await shake(ends, files)
    client.transport.write(b"last")
    client.transport.close()
    async with asyncio.timeout(TIMEOUT_S):
        await server.lost.wait()
    assert (server.pieces, server.eof) == ([b"last"], True)


async def test_what_came_before_the_handshake_belongs_to_it(
    ends: Ends, files: Certificates
) -> None:
    server, client = ends
    hello = TlsLayer(files.context(), server_name="localhost")
    client.transport.start_tls(hello, b"", client.on_shaken)
    hello.shake_hands()
    unread = bytes(await asyncio.wait_for(raw_bytes(server), TIMEOUT_S))
    layer = ServerTls(files.cert, files.key).layer()
    server.transport.start_tls(layer, unread, server.on_shaken)
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(server.shaken, client.shaken)


async def raw_bytes(end: End) -> bytes:
    """What comes to an end without layers, as a session would have read it."""
    future = asyncio.get_running_loop().create_future()

    class Taker(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            future.set_result(data)

    end.raw.set_protocol(Taker())
    data: bytes = await future
    end.raw.set_protocol(end.transport)
    return data


async def test_a_handshake_has_a_deadline(
    ends: Ends, files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "HANDSHAKE_S", 0.05)
    server, client = ends
    server.transport.start_tls(ServerTls(files.cert, files.key).layer(), b"", server.on_shaken)
    client.raw.write(b"\x16\x03\x01\x02\x00")
    with pytest.raises(TlsError, match=r"read tcp 127.0.0.1:\d+->127.0.0.1:\d+: i/o timeout"):
        await server.shaken
    server.transport.write(b"in the clear")
    server.transport.close()
    client.transport.set_layers([DeflateLayer()])
    async with asyncio.timeout(TIMEOUT_S):
        await client.lost.wait()


async def test_an_end_in_a_handshake(ends: Ends, files: Certificates) -> None:
    server, client = ends
    server.transport.start_tls(ServerTls(files.cert, files.key).layer(), b"", server.on_shaken)
    client.raw.abort()
    with pytest.raises(TlsError, match="EOF"):
        await server.shaken
    server.transport.write(b"nobody")
    server.transport.resume_reading()
    server.transport.close()
    async with asyncio.timeout(TIMEOUT_S):
        await server.lost.wait()


async def test_a_lost_connection_ends_a_handshake_quietly(
    ends: Ends, files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layered, "HANDSHAKE_S", 0.05)
    server, _ = ends
    server.transport.start_tls(ServerTls(files.cert, files.key).layer(), b"", server.on_shaken)
    server.transport.abort()
    async with asyncio.timeout(TIMEOUT_S):
        await server.lost.wait()
    await asyncio.sleep(0.1)
    assert not server.shaken.done()


async def test_it_is_a_transport_like_any_other(ends: Ends) -> None:
    server, client = ends
    transport = server.transport
    assert transport.get_extra_info("peername") == client.raw.get_extra_info("sockname")
    assert transport.get_protocol() is server
    transport.set_write_buffer_limits(high=1000)
    assert transport.get_write_buffer_limits()[1] == 1000
    assert transport.can_write_eof()
    assert not transport.is_closing()
    transport.abort()
    assert transport.is_closing()
    await server.lost.wait()

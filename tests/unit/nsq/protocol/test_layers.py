"""The compressing layers against zlib and cramjam, and the formats' rules (NSQ spec 1.6)."""

from __future__ import annotations

import contextlib
import importlib
import os
import struct
import sys
import time
import zlib
from collections.abc import Iterable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.tls.layers import PIECE, Layer, LayerError
from penstock.nsq.protocol import deflate
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.snappy import STREAM_ID, SnappyLayer
from tools.harness.naive_nsq import cut

TEXTS = st.lists(st.one_of(st.binary(max_size=300), st.just(b"text " * 40_000)), max_size=6)


def read_all(layer: Layer, parts: Iterable[bytes]) -> bytes:
    """All that a layer gives when these come one after the other."""
    found = []
    for part in parts:
        layer.receive_data(part)
        while piece := layer.read():
            assert len(piece) <= PIECE
            found.append(piece)
    return b"".join(found)


# --- deflate


def raw_compressor(level: int = 6) -> zlib._Compress:
    return zlib.compressobj(level, zlib.DEFLATED, -15)


@given(texts=TEXTS, cuts=st.lists(st.integers(0, 5000)))
def test_zlib_reads_what_is_sent_and_is_read(texts: list[bytes], cuts: list[int]) -> None:
    layer, zlib_reads = DeflateLayer(), zlib.decompressobj(-15)
    packer = raw_compressor()
    packed = b""
    for text in texts:
        assert zlib_reads.decompress(layer.send(text)) == text
        packed += packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert read_all(layer, cut(packed, cuts)) == b"".join(texts)


def test_the_golden_bytes_of_deflate() -> None:
    """A stored or fixed block, a sync flush behind it, no header and no final block."""
    layer = DeflateLayer(1)
    sent = layer.send(b"abc")
    assert sent == b"\x4a\x4c\x4a\x06\x00\x00\x00\xff\xff"
    assert layer.send(b"abc").endswith(b"\x00\x00\xff\xff")


def test_without_zlib_ng_it_is_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    try:
        layer = importlib.reload(deflate).DeflateLayer()
        assert vars(deflate)["zlib"] is zlib
        assert read_all(layer, [layer.send(b"some text")]) == b"some text"
    finally:
        monkeypatch.undo()
        importlib.reload(deflate)


@pytest.mark.parametrize("level", [1, 6, 9])
def test_every_level_can_be_read(level: int) -> None:
    text = b"some text, some text " * 1000
    sent = DeflateLayer(level).send(text)
    assert len(sent) < len(text) / 10
    assert read_all(DeflateLayer(), [sent]) == text


def test_the_end_of_the_stream_is_an_end() -> None:
    packer = raw_compressor()
    layer = DeflateLayer()
    layer.receive_data(packer.compress(b"last words") + packer.flush(zlib.Z_FINISH) + b"garbage")
    assert (layer.read(), layer.eof) == (b"last words", False)
    assert (layer.read(), layer.eof) == (b"", True)


def test_what_is_no_deflate() -> None:
    with pytest.raises(LayerError, match="invalid block type"):
        read_all(DeflateLayer(), [b"\xff" * 10])


# --- snappy


def framed(text: bytes) -> bytes:
    """As a client with a new compressor for every write sends it: an identifier, then chunks."""
    return bytes(cramjam.snappy.compress(text))


def chunk(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + struct.pack("<I", len(content))[:3] + content


def plain_chunk(text: bytes) -> bytes:
    """An uncompressed chunk; the checksum is taken from one that cramjam made."""
    return chunk(1, framed(text)[14:18] + text)


@given(texts=TEXTS, cuts=st.lists(st.integers(0, 5000)))
def test_cramjam_reads_what_is_sent(texts: list[bytes], cuts: list[int]) -> None:
    layer, other = SnappyLayer(), SnappyLayer()
    sent = b"".join([layer.send(text) for text in texts if text])
    plain = b"".join(texts)
    assert bytes(cramjam.snappy.decompress(sent)) == plain
    assert STREAM_ID not in sent[10:] or STREAM_ID in plain
    assert read_all(other, cut(sent, cuts)) == plain


@given(
    texts=TEXTS,
    extras=st.lists(st.sampled_from([STREAM_ID, chunk(0x80, b"skip me"), chunk(0xFE, bytes(999)),
                                     chunk(0xFD, b"")])),
    uncompressed=st.booleans(),
    cuts=st.lists(st.integers(0, 5000)),
)  # fmt: skip
def test_streams_of_others_are_read(
    texts: list[bytes], extras: list[bytes], uncompressed: bool, cuts: list[int]
) -> None:
    stream, plain = STREAM_ID, b""
    for number, text in enumerate(texts):
        stream += extras[number % len(extras)] if extras else b""
        if uncompressed and text and len(text) < 65536:
            stream += plain_chunk(text)
        elif text:
            stream += framed(text)
        plain += text
    assert read_all(SnappyLayer(), cut(stream, cuts)) == plain


def test_the_golden_bytes_of_snappy() -> None:
    layer = SnappyLayer()
    ok = bytes.fromhex("00000006000000004f4b")
    sent = layer.send(ok)
    assert sent[:10] == bytes.fromhex("ff060000734e61507059") == STREAM_ID
    assert sent[10:] == b"\x01\x0e\x00\x00" + struct.pack("<I", masked_crc32c(ok)) + ok
    assert layer.send(ok) == sent[10:]


def masked_crc32c(data: bytes) -> int:
    """Bit by bit, as the format's description says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_any_buffer_can_be_sent() -> None:
    text = os.urandom(200_000)
    for kind in (bytes, bytearray, memoryview):
        assert read_all(SnappyLayer(), [SnappyLayer().send(kind(text))]) == text


def test_byte_by_byte_costs_no_more_than_once_over() -> None:
    """A large chunk in single bytes: four times the size takes about four times as long."""

    def seconds(size: int) -> float:
        stream = framed(os.urandom(size))
        layer = SnappyLayer()
        started = time.process_time()
        for at in range(len(stream)):
            layer.receive_data(stream[at : at + 1])
            layer.read()
        return time.process_time() - started

    seconds(1000)
    assert min(seconds(60_000) for _ in range(3)) < 10 * min(seconds(15_000) for _ in range(3))


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (plain_chunk(b"abc"), "in the place of the stream identifier"),
        (chunk(0xFF, b"sNaPpX"), "wrong stream identifier"),
        (chunk(0xFF, b"sNaPp"), "0xff, 5 bytes"),
        (STREAM_ID + chunk(0x02, b"abcdef"), "chunk type 0x02"),
        (STREAM_ID + chunk(0x7F, b""), "chunk type 0x7f"),
        (STREAM_ID + chunk(0x00, b"abc"), "chunk type 0x00, 3 bytes"),
        (STREAM_ID + b"\x01\xff\xff\xff", "chunk type 0x01, 16777215 bytes"),
        (STREAM_ID + chunk(0x01, bytes(4 + 65537)), "65537 plain bytes"),
        (STREAM_ID + chunk(0x00, bytes(4) + b"\xff" * 4 + bytes(9)), "without a length"),
        (STREAM_ID + chunk(0x00, bytes(4)), "without a length"),
        (STREAM_ID + chunk(0x01, bytes(4) + b"abc"), "bad checksum"),
        (STREAM_ID + chunk(0x00, bytes(4) + b"\x05" + b"\xff" * 9), "snappy"),
    ],
)  # fmt: skip
def test_what_is_no_snappy(stream: bytes, words: str) -> None:
    with pytest.raises(LayerError, match=words):
        read_all(SnappyLayer(), [stream])


def test_a_long_chunk_to_skip_is_not_kept() -> None:
    layer = SnappyLayer()
    layer.receive_data(STREAM_ID + b"\xfe\xff\xff\xff")
    for _ in range(255):
        layer.receive_data(bytes(65536))
        assert layer.read() == b""
        assert len(layer._held) < 20
    layer.receive_data(bytes(65535))
    assert read_all(layer, [framed(b"at last")]) == b"at last"


# --- either


def as_others_pack(layer: type[Layer], text: bytes) -> bytes:
    if layer is SnappyLayer:
        return framed(text)
    packer = raw_compressor(9)
    return packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("kind", [DeflateLayer, SnappyLayer])
def test_a_bomb_is_read_in_pieces(kind: type[Layer]) -> None:
    layer = kind()
    layer.receive_data(as_others_pack(kind, bytes(16 << 20)))
    sizes = [len(piece) for piece in iter(layer.read, b"")]
    assert max(sizes) <= PIECE
    assert sum(sizes) == 16 << 20


@pytest.mark.parametrize(
    ("kind", "damage"), [(DeflateLayer, b"\xff" * 10), (SnappyLayer, chunk(0x02, b"bad!"))]
)
def test_what_came_before_the_damage_is_read(kind: type[Layer], damage: bytes) -> None:
    layer = kind()
    layer.receive_data(as_others_pack(kind, b"good"))
    layer.receive_data(damage)
    assert layer.read() == b"good"
    with pytest.raises(LayerError):
        layer.read()


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(LayerError):
        read_all(DeflateLayer(), [data])
    for start in (b"", STREAM_ID, framed(b"some text")):
        with contextlib.suppress(LayerError):
            read_all(SnappyLayer(), [start + data])

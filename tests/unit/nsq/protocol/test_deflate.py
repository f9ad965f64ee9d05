"""The deflate layer against zlib itself (NSQ spec 1.6)."""

from __future__ import annotations

import contextlib
import importlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.tls.layers import PIECE, LayerError
from penstock.nsq.protocol import deflate
from penstock.nsq.protocol.deflate import DeflateLayer

from .cuts import cut, read_all

TEXTS = st.lists(st.one_of(st.binary(max_size=300), st.just(b"text " * 40_000)), max_size=6)


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


def test_the_golden_bytes() -> None:
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


def test_a_bomb_is_read_in_pieces() -> None:
    packer = raw_compressor(9)
    layer = DeflateLayer()
    layer.receive_data(packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH))
    sizes = []
    while piece := layer.read():
        sizes.append(len(piece))
    assert max(sizes) <= PIECE
    assert sum(sizes) == 64 << 20


def test_the_end_of_the_stream_is_an_end() -> None:
    packer = raw_compressor()
    layer = DeflateLayer()
    layer.receive_data(packer.compress(b"last words") + packer.flush(zlib.Z_FINISH) + b"garbage")
    assert (layer.read(), layer.eof) == (b"last words", False)
    assert (layer.read(), layer.eof) == (b"", True)


@given(st.binary(min_size=1, max_size=200))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(LayerError):
        read_all(DeflateLayer(), [data])


def test_what_came_before_the_damage_is_read() -> None:
    layer = DeflateLayer()
    layer.receive_data(DeflateLayer().send(b"good"))
    layer.receive_data(b"\xff" * 10)
    assert layer.read() == b"good"
    with pytest.raises(LayerError):
        layer.read()


def test_what_is_no_deflate() -> None:
    layer = DeflateLayer()
    layer.receive_data(b"\xff" * 10)
    with pytest.raises(LayerError, match="invalid block type"):
        layer.read()

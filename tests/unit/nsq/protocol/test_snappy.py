"""The snappy layer against cramjam's own framing, and the rules of the format."""

from __future__ import annotations

import contextlib
import os
import struct
import time

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.tls.layers import PIECE, LayerError
from penstock.nsq.protocol.snappy import STREAM_ID, SnappyLayer

from .cuts import cut, read_all

TEXTS = st.lists(st.one_of(st.binary(max_size=300), st.just(b"text " * 40_000)), max_size=6)


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


def test_the_golden_bytes() -> None:
    layer = SnappyLayer()
    ok = bytes.fromhex("00000006000000004f4b")
    sent = layer.send(ok)
    assert sent[:10] == bytes.fromhex("ff060000734e61507059") == STREAM_ID
    assert sent[10:14] == b"\x01\x0e\x00\x00"
    assert sent[18:] == ok
    assert layer.send(ok) == sent[10:]


def test_any_buffer_can_be_sent() -> None:
    text = os.urandom(200_000)
    for kind in (bytes, bytearray, memoryview):
        assert read_all(SnappyLayer(), [SnappyLayer().send(kind(text))]) == text


def test_a_bomb_is_read_in_pieces() -> None:
    layer = SnappyLayer()
    layer.receive_data(framed(bytes(16 << 20)))
    sizes = []
    while piece := layer.read():
        sizes.append(len(piece))
    assert max(sizes) == PIECE
    assert sum(sizes) == 16 << 20


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


def test_what_came_before_the_damage_is_read() -> None:
    layer = SnappyLayer()
    layer.receive_data(framed(b"good") + chunk(0x02, b"bad!"))
    assert layer.read() == b"good"
    with pytest.raises(LayerError):
        layer.read()


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    for start in (b"", STREAM_ID, framed(b"some text")):
        with contextlib.suppress(LayerError):
            read_all(SnappyLayer(), [start + data])


def test_a_long_chunk_to_skip_is_not_kept() -> None:
    layer = SnappyLayer()
    layer.receive_data(STREAM_ID + b"\xfe\xff\xff\xff")
    for _ in range(255):
        layer.receive_data(bytes(65536))
        assert layer.read() == b""
        assert len(layer._held) < 20
    layer.receive_data(bytes(65535))
    assert read_all(layer, [framed(b"at last")]) == b"at last"

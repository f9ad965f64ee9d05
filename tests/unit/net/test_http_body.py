from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.http_body import BadBodyError, BodyTooLargeError, ChunkedBody, SizedBody


def chunked(chunks: list[bytes], ending: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk) + ending


def fed_in_pieces(reader: SizedBody | ChunkedBody, data: bytes, size: int) -> bytes:
    """Feeds `data` and returns what the reader left."""
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        stopped = reader.feed(piece, 0)
        if reader.done:
            return data[start + stopped :]
        assert stopped == len(piece)
    return b""


@given(st.binary(max_size=50), st.binary(max_size=10), st.integers(1, 20))
def test_sized(body: bytes, after: bytes, size: int) -> None:
    reader = SizedBody(len(body))
    left = after if reader.done else fed_in_pieces(reader, body + after, size)
    assert (reader.done, reader.body(), left) == (True, body, after)


@given(st.lists(st.binary(max_size=30)), st.binary(max_size=10), st.integers(1, 40))
def test_chunked(chunks: list[bytes], after: bytes, size: int) -> None:
    reader = ChunkedBody(limit=10_000)
    left = fed_in_pieces(reader, chunked(chunks) + after, size)
    assert (reader.done, reader.body(), left) == (True, b"".join(chunks), after)


@pytest.mark.parametrize("size", [1, 1000])
def test_extensions_and_trailers_are_read_over(size: int) -> None:
    reader = ChunkedBody(10)
    fed_in_pieces(reader, b"3;x=y\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", size)
    assert (reader.done, reader.body()) == (True, b"abc")


def test_the_limit_is_the_bodys_size() -> None:
    exact = ChunkedBody(5)
    exact.feed(chunked([b"abc", b"de"]), 0)
    assert exact.done
    with pytest.raises(BodyTooLargeError):
        ChunkedBody(5).feed(chunked([b"abc", b"def"]), 0)
    with pytest.raises(BodyTooLargeError):  # known from the chunk's size, before its bytes
        ChunkedBody(5).feed(b"ffffff\r\n", 0)


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"3\r\nabcXX",
        b"3\r\nabcd\r\n",
        b"1" * 5000,
        b"1" * 16 + b"\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_bad_chunks(data: bytes, size: int) -> None:
    with pytest.raises(BadBodyError):
        fed_in_pieces(ChunkedBody(1 << 40), data, size)


def test_endless_trailers() -> None:
    with pytest.raises(BadBodyError):
        ChunkedBody(1).feed(b"0\r\n" + b"A: b\r\n" * 10_000, 0)

"""Garbage costs time in proportion to its size: four times the bytes, about four times the time.

Each stream is the worst we could think of for one decoder. Times are of the processor, and what is
compared takes as long where all is well, so that a busy machine, which empties caches, delays both;
a decoder that copies or searches all it holds for each new piece would need sixteen times as long.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.net.http.server.reader import RequestReader
from penstock.net.tls.layers import Layer
from penstock.nsq.nsqlookupd import protocol as lookup
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.encode import multi_publish, publish
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import FrameReader, message
from penstock.nsq.protocol.identify import Identity, identify
from penstock.nsq.protocol.limits import Limits
from penstock.nsq.protocol.snappy import STREAM_ID, SnappyLayer
from penstock.storage.batch import MAGIC
from penstock.storage.recovery.scan import scan
from tools.fuzz.streams import pieces
from tools.fuzz.targets.http import ROUTER

RATIO_MAX = 2.25
TRIES = 5
LIMITS = Limits()


def cpu_s(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def check_linear(work: Callable[[int], object], size: int) -> None:
    """``work(4 * size)`` takes about as long as ``work(size)`` four times: well below four times
    that, as it would if the time grew with the square of the size.
    """
    work(size)  # imports and caches
    ratio = 0.0
    for _ in range(TRIES):
        four = cpu_s(lambda: [work(size) for _ in range(4)])
        ratio = cpu_s(lambda: work(4 * size)) / max(four, 1e-4)
        if ratio < RATIO_MAX:
            return
    pytest.fail(f"the same bytes at once took {ratio:.1f} times as long as in four parts")


def hear(stream: bytes, step: int) -> None:
    reader = CommandReader(LIMITS)
    for piece in pieces(stream, step):
        reader.receive_data(piece)
        while reader.next_event() is not None:
            pass


def request(stream: bytes, step: int) -> None:
    reader = RequestReader(ROUTER, lambda: "")
    for piece in pieces(stream, step):
        reader.feed(piece)
        reader.events.clear()


def register(stream: bytes, step: int) -> None:
    reader = lookup.CommandReader()
    for piece in pieces(stream, step):
        reader.receive_data(piece)
        while reader.next_command() is not None:
            pass


def receive(stream: bytes, step: int) -> None:
    reader = FrameReader()
    for piece in pieces(stream, step):
        reader.receive_data(piece)
        for block in reader.events():
            len(block)  # type: ignore[arg-type]


def decode(layer: Layer, stream: bytes, step: int) -> None:
    for piece in pieces(stream, step):
        layer.receive_data(piece)
        while layer.read():
            pass


def decode_json(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        identify(body, LIMITS, Identity.unknown("h", LIMITS))


_SNAPPY = SnappyLayer().send(b"x")
_POST = b"POST /pub HTTP/1.1\r\nHost: h\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_HELLO = lookup.MAGIC_V1 + lookup.identify(
    b'{"broadcast_address":"h","tcp_port":1,"http_port":2,"version":"1"}'
)


def mixed(count: int) -> Iterator[bytes]:
    """Bodies of two sizes, so that no quick way for equal ones is taken."""
    return (b"x" * (1 + number % 2) for number in range(count))


CASES: dict[str, tuple[Callable[[int], object], int]] = {
    "a body, in small pieces": (lambda n: hear(publish("t", b"x" * n), 16), 100_000),
    "commands a byte at a time": (lambda n: hear(b"NOP\n" * n, 1), 4_000),
    "empty lines": (lambda n: hear(b"NOP\r\n" * n, 65536), 20_000),
    "MPUB of tiny messages": (
        lambda n: hear(multi_publish("t", [*mixed(n)]), 1000),
        30_000,
    ),
    "MPUB whose last message differs": (
        lambda n: hear(multi_publish("t", [b"x"] * n + [b"yy"]), 1000),
        40_000,
    ),
    "FIN in pieces": (lambda n: hear(b"FIN 0123456789abcdef\n" * n, 20), 3_000),
    "HTTP head a byte at a time": (lambda n: request(_POST + b"A: b\r\n" * n, 1), 2_000),
    "HTTP header without end": (lambda n: request(_POST + b"A: " + b"b" * n, 10), 15_000),
    "HTTP requests": (
        lambda n: request(b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n" * n, 65536),
        2_000,
    ),
    "chunks of a byte": (lambda n: request(_CHUNKED + b"1\r\nx\r\n" * n, 4096), 60),
    "URL without end": (lambda n: request(b"GET /" + b"%41" * n, 3), 5_000),
    "lines to nsqlookupd": (lambda n: register(_HELLO + lookup.register("t") * n, 65536), 4_000),
    "a line to nsqlookupd a byte at a time": (lambda n: register(_HELLO + b"R" * n, 1), 30_000),
    "frames in small pieces": (
        lambda n: receive(message(1, 1, b"0" * 16, b"x" * n) * 2, 16),
        100_000,
    ),
    "tiny frames": (lambda n: receive(message(1, 1, b"0" * 16, b"") * n, 37), 3_000),
    "snappy chunks to be skipped": (
        lambda n: decode(SnappyLayer(), _SNAPPY + b"\x80\0\0\0" * n, 1 << 20),
        20_000,
    ),
    "snappy chunks of a byte": (lambda n: decode(SnappyLayer(), _SNAPPY * n, 1 << 20), 2_000),
    "a snappy chunk a byte at a time": (
        lambda n: decode(SnappyLayer(), STREAM_ID + b"\x80\xff\xff\xff" + b"x" * n, 1),
        20_000,
    ),
    "empty deflate blocks": (
        lambda n: decode(DeflateLayer(), b"\0\0\0\xff\xff" * n, 1 << 20),
        100_000,
    ),
    "deflate a byte at a time": (
        lambda n: decode(DeflateLayer(), DeflateLayer().send(bytes(range(256)) * n), 1),
        2_000,
    ),
    "JSON nesting": (lambda n: decode_json(b'{"a":' + b"[" * n), 50_000),
    "JSON numbers": (lambda n: decode_json(b'{"a":' + b"9" * n + b"}"), 50_000),
    "JSON keys": (lambda n: decode_json(b"{" + b'"a":1,' * n + b'"b":2}'), 10_000),
    "beginnings of batches": (lambda n: len(scan(MAGIC * n).damage) and None, 20_000),
}


@pytest.mark.parametrize("case", CASES)
def test_time_is_in_proportion_to_size(case: str) -> None:
    work, size = CASES[case]
    check_linear(work, size)


def test_a_decoder_that_copies_all_it_holds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that counts what is copied: a busy processor may take twice as long for a part."""
    copied = 0

    def copying(size: int) -> None:
        nonlocal copied
        for held in range(size):
            copied += held

    def spent(work: Callable[[], object]) -> float:
        before = copied
        work()
        return copied - before

    monkeypatch.setattr(f"{__name__}.cpu_s", spent)
    with pytest.raises(pytest.fail.Exception, match=r"took 4\.0 times as long"):
        check_linear(copying, 1000)

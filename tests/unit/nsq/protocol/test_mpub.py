"""MpubScanner: the walk over an MPUB that comes in pieces."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.encode import multi_body
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.mpub import MpubScanner

from .test_bodies import equal, mixed


@given(equal() | mixed, st.integers(1, 30), st.sampled_from([bytes, bytearray]))
def test_any_pieces_find_the_same(bodies: list[bytes], step: int, kind: type) -> None:
    data = b"##" + multi_body(bodies)
    scanner = MpubScanner(60, 10_000)
    for end in range(2, len(data), step):
        assert not scanner.scan(kind(data[:end]), 2)
    assert scanner.scan(kind(data + b"more"), 2)
    assert scanner.consumed == len(data) - 2
    assert Bodies.from_scan(scanner, data, 2).to_list() == bodies


def test_equal_sizes_are_not_cut_apart() -> None:
    scanner = MpubScanner(60, 10_000)
    assert scanner.scan(multi_body([b"ab"] * 50), 0)
    assert scanner.equal_size == 2
    assert not scanner.bodies


def test_an_error_is_found_as_soon_as_its_bytes_are_there() -> None:
    scanner = MpubScanner(60, 10_000)
    start = struct.pack(">I", 1000) + b"\0\0\0\2ab" * 30
    assert not scanner.scan(start, 0)
    with pytest.raises(ProtocolError, match=r"MPUB invalid message\(30\) body size 0"):
        scanner.scan(start + b"\0\0\0\0", 0)


def test_the_end_is_told_by_place() -> None:
    start = struct.pack(">I", 1000) + b"\0\0\0\2ab" * 30
    for surplus, text in (
        (b"", "E_BAD_MESSAGE MPUB failed to read message(30) body size"),
        (b"\0\0\0", "E_BAD_MESSAGE MPUB failed to read message(30) body size"),
        (b"\0\0\0\2", "E_BAD_MESSAGE MPUB failed to read message body"),
        (b"\0\0\0\3ab", "E_BAD_MESSAGE MPUB failed to read message body"),
    ):
        scanner = MpubScanner(60, 10_000)
        assert not scanner.scan(start + surplus, 0)
        assert scanner.end_of_data(len(start + surplus)).text == text


@pytest.mark.parametrize("sizes", [[50] * 19, [50] * 18 + [49]])
def test_sizes_may_not_lead_beyond_the_largest_body(sizes: list[int]) -> None:
    # 19 * 54 + 4 bytes are more than 1000, though nothing was declared about the sum.
    data = multi_body([bytes(size) for size in sizes])
    with pytest.raises(ProtocolError, match=r"E_BAD_BODY MPUB body too big 10.. > 1000"):
        MpubScanner(60, 1000).scan(data, 0)


def test_the_count_is_bounded_by_the_largest_body() -> None:
    assert not MpubScanner(60, 1000).scan(struct.pack(">I", 199), 0)
    with pytest.raises(ProtocolError, match="E_BAD_BODY MPUB invalid message count 200"):
        MpubScanner(60, 1000).scan(struct.pack(">I", 200), 0)

"""Compiled frames are those of Python, byte for byte, and what is not whole or legal is left."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import lane
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.mpub import MpubScanner

pytestmark = pytest.mark.skipif(lane.COMPILED is None, reason=f"compiled lane: {lane.STATE}")

MSG_MAX, BODY_MAX = 300, 10_000
IDS = st.integers(0, 2**64 - 1_000)
STAMPS = st.integers(0, 2**63 - 1)
EVEN = st.integers(1, MSG_MAX).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=25)
)
ANY = st.lists(st.binary(min_size=1, max_size=MSG_MAX), min_size=1, max_size=25)


def mpub(bodies: list[bytes]) -> bytes:
    sizes = [struct.pack(">I", len(body)) + body for body in bodies]
    return struct.pack(">I", len(bodies)) + b"".join(sizes)


@given(EVEN | ANY, IDS, STAMPS)
def test_frames_are_those_of_python(bodies: list[bytes], first_id: int, stamp_ns: int) -> None:
    assert lane.COMPILED is not None
    frames = lane.COMPILED.frames_of_mpub(mpub(bodies), MSG_MAX, BODY_MAX)
    expected = Bodies.from_list(bodies)
    assert frames is not None
    assert (frames.count, frames.nbytes, frames.stride, frames.note, frames.dialect) == (
        expected.count, expected.nbytes, expected.stride, expected.note, expected.dialect,
    )  # fmt: skip
    (raw, positions), (raw_too, positions_too) = (
        each.encode(first_id, stamp_ns) for each in (frames, expected)
    )
    assert bytes(raw) == bytes(raw_too)
    assert (positions is None) == (positions_too is None)
    if positions is not None and positions_too is not None:
        assert positions.tolist() == positions_too.tolist()


@given(st.lists(st.integers(-2, MSG_MAX + 2), max_size=12), st.integers(-2, 14), st.binary())
def test_what_the_scanner_refuses_or_waits_for_has_no_frames(
    sizes: list[int], count: int, noise: bytes
) -> None:
    """Sizes that lie, counts that lie, and bytes that are anything, cut anywhere."""
    assert lane.COMPILED is not None
    parts = [struct.pack(">i", size) + b"x" * max(0, size) for size in sizes]
    for data in (struct.pack(">i", count) + b"".join(parts), noise):
        for end in {0, 3, 4, 7, 8, len(data) // 2, len(data) - 1, len(data)}:
            piece = data[: max(0, end)]
            scanner = MpubScanner(MSG_MAX, BODY_MAX)
            try:
                whole = scanner.scan(piece, 0)
            except ProtocolError:
                whole = False
            frames = lane.COMPILED.frames_of_mpub(piece, MSG_MAX, BODY_MAX)
            assert (frames is not None) == whole
            if frames is not None:
                assert frames.count == scanner.count


def test_sizes_next_to_the_limits() -> None:
    assert lane.COMPILED is not None
    of = lane.COMPILED.frames_of_mpub
    assert of(mpub([b"x" * 10]), 10, 100) is not None
    assert of(mpub([b"x" * 11]), 10, 100) is None, "a message beyond the limit"
    assert of(mpub([b"x" * 10] * 6), 10, 88) is not None
    assert of(mpub([b"x" * 10] * 6), 10, 87) is None, "a body beyond the limit"
    assert of(struct.pack(">I", 2**31 - 1) + b"x" * 64, 2**31 - 1, 2**31 - 1) is None

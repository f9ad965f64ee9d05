"""The body of a staged chunk."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import MILLISECOND
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.staged import read_staged

SIZE_MAX = 20
DELAY_MAX = 1000 * MILLISECOND

Messages = list[tuple[bytes, int]]


def encode(messages: Messages) -> bytes:
    parts = [struct.pack(">II", len(body), delay) + body for body, delay in messages]
    return struct.pack(">I", len(messages)) + b"".join(parts)


def read(body: bytes) -> Messages:
    """The messages with their delays in ms."""
    found = []
    for run in read_staged(body, SIZE_MAX, DELAY_MAX):
        assert run.bodies.count == len(run.bodies.to_list()) > 0
        found += [(each, run.delay_ns // MILLISECOND) for each in run.bodies.to_list()]
    return found


_delays = st.sampled_from([0, 0, 0, 1, 1000])
_equal = st.integers(1, SIZE_MAX).flatmap(
    lambda size: st.lists(st.tuples(st.binary(min_size=size, max_size=size), _delays), min_size=1)
)
_mixed = st.lists(st.tuples(st.binary(min_size=1, max_size=SIZE_MAX), _delays), min_size=1)


@given(st.one_of(_equal, _mixed))
def test_what_is_encoded_is_read_in_order(messages: Messages) -> None:
    assert read(encode(messages)) == messages
    runs = read_staged(encode(messages), SIZE_MAX, DELAY_MAX)
    delays = [run.delay_ns for run in runs]
    assert all(one != next_ for one, next_ in itertools.pairwise(delays))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "BAD_BODY no message count"),
        (b"\0\0\0", "BAD_BODY no message count"),
        (encode([]), "BAD_BODY message count 0 in 4 bytes"),
        (b"\xff" * 12, "BAD_BODY message count 4294967295 in 12 bytes"),
        (encode([(b"", 0), (b"a", 0)]), "MSG_EMPTY message 0 has 0 bytes, not 1 to 20"),
        (encode([(bytes(21), 0)]), "MSG_TOO_BIG message 0 has 21 bytes, not 1 to 20"),
        (encode([(b"a", 0), (bytes(21), 0)]), "MSG_TOO_BIG message 1 has 21 bytes, not 1 to 20"),
        (encode([(b"a", 0), (b"b", 1001)]),
         "INVALID_DEFER message 1 is deferred for longer than allowed"),
        (encode([(b"a", 0), (b"bb", 1001)]),
         "INVALID_DEFER message 1 is deferred for longer than allowed"),
        (encode([(b"a", 0), (b"bbbbbbbbbbbbb", 0)])[:-6], "BAD_BODY ends within message 1"),
        (encode([(b"a", 0), (b"b" * 10, 0)])[:15] + b"\0\0\0", "BAD_BODY ends before message 1"),
        (encode([(b"a", 0)]) + b"x", "BAD_BODY 1 bytes behind the last message"),
        (encode([(b"a", 0), (b"bb", 0)]) + b"x", "BAD_BODY 1 bytes behind the last message"),
    ],
)  # fmt: skip
def test_wrong_bodies_are_named(body: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(body)
    assert caught.value.text == text


@given(_mixed, st.data())
def test_no_cut_body_is_read(messages: Messages, data: st.DataObject) -> None:
    whole = encode(messages)
    with pytest.raises(ProtocolError):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])

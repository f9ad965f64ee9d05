"""Requests and answers, whole and spoiled."""

from __future__ import annotations

import pytest

from penstock.replication.messages import (
    VERSION,
    Batches,
    End,
    Fetch,
    Held,
    Hello,
    ReplicationError,
    decode_fetch,
    decode_parts,
    encode_fetch,
    encode_part,
)

FETCH = Fetch(VERSION, 3, "h", 1, "run", [Held("t", 7, 2, 9, "0", 40)], {"a": 1}, 100, False, "h:1")
ANSWER = b"".join([
    *encode_part(Batches("t", 7, 0, 2, 0), b"abc", memoryview(b"def")),
    *encode_part(End("run", 3, more=True)),
])  # fmt: skip


def test_a_request_comes_as_it_was_sent() -> None:
    assert decode_fetch(encode_fetch(FETCH)) == FETCH


def test_another_version_and_another_thing_are_refused_with_the_reason() -> None:
    later = encode_fetch(Fetch(VERSION + 1, 1, "", 0, "", [], None, 1, True))
    with pytest.raises(ReplicationError, match="another version of Penstock"):
        decode_fetch(later)
    with pytest.raises(ReplicationError, match="no request of a follower"):
        decode_fetch(b"GET / HTTP/1.1")


def test_an_answer_has_its_parts_in_order() -> None:
    first, last = decode_parts(ANSWER)
    assert (first.head, bytes(first.data)) == (Batches("t", 7, 0, 2, 0), b"abcdef")
    assert (last.head, bytes(last.data)) == (End("run", 3, True), b"")
    [hello, _] = decode_parts(b"".join([*encode_part(Hello("r", "h", 2, {"t": (1, 2)})),
                                        *encode_part(End("r", 1, True))]))  # fmt: skip
    assert hello.head == Hello("r", "h", 2, {"t": (1, 2)})


def test_an_answer_that_is_cut_anywhere_is_refused() -> None:
    for length in range(len(ANSWER)):
        with pytest.raises(ReplicationError):
            list(decode_parts(ANSWER[:length]))


def test_an_answer_with_any_bit_turned_is_refused() -> None:
    for bit in range(8 * len(ANSWER)):
        spoiled = bytearray(ANSWER)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ReplicationError):
            list(decode_parts(spoiled))

"""What goes into one multi-publish."""

from __future__ import annotations

from penstock.nsq.pieces import PIECE_BYTES, pieces
from penstock.nsq.stored import Stored


def stored(*bodies: bytes) -> list[Stored]:
    return [Stored(offset, "", 0, body) for offset, body in enumerate(bodies)]


def test_pieces_have_so_many_messages_at_most_and_so_many_bytes() -> None:
    many = stored(*[b"x"] * 25)
    assert [len(piece) for piece in pieces(many, 10)] == [10, 10, 5]
    half = b"w" * (PIECE_BYTES // 2)
    large = stored(b"x" * 10, b"y" * PIECE_BYTES, b"z", half, half, half)
    found = [[message.offset for message in piece] for piece in pieces(large, 10)]
    assert found == [[0], [1], [2, 3], [4], [5]]
    assert list(pieces([], 10)) == []

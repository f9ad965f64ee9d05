"""Gathering rows until they fill a request."""

from __future__ import annotations

from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.piles import Piles
from tests.unit.spark.sink.making import bodies_of, piece


def shown(sent: list[tuple[str, Piece]]) -> list[tuple[str, list[bytes]]]:
    return [(key, bodies_of(piece)) for key, piece in sent]


def test_small_pieces_wait_for_each_other() -> None:
    piles: Piles[str] = Piles(4000)
    assert list(piles.add("a", piece([b"1", b"2"]))) == []
    assert list(piles.add("b", piece([b"3"]))) == []
    assert list(piles.add("a", piece([b"4"]))) == []
    assert shown(list(piles.rest())) == [("a", [b"1", b"2", b"4"]), ("b", [b"3"])]
    assert list(piles.rest()) == []


def test_a_full_pile_goes_but_for_its_end() -> None:
    piles: Piles[str] = Piles(4000)
    bodies = [b"%03d" % number * 300 for number in range(10)]
    assert shown(list(piles.add("a", piece(bodies)))) == [("a", bodies[:4]), ("a", bodies[4:8])]
    assert shown(list(piles.rest())) == [("a", bodies[8:])]


def test_what_is_held_is_bounded() -> None:
    piles: Piles[str] = Piles(3000)
    sent = []
    for number in range(200):
        sent += list(piles.add(f"k{number}", piece([b"x"])))
    # 16 requests of 3,000 bytes, and each small piece counts for a kilobyte.
    assert len(sent) == 200 - 16 * 3000 // 1033
    assert len({key for key, _ in [*sent, *piles.rest()]}) == 200

"""The logs of real nodes read as one."""

from __future__ import annotations

import functools
import operator

import pytest

from penstock.admin.messages.places import Place
from penstock.admin.messages.search import scan
from penstock.admin.messages.search.scan import Scan
from tests.programs.admin.messages.conftest import Pair


async def bodies(pair: Pair, *places: Place) -> list[list[bytes]]:
    """Of each piece."""
    reading = Scan(pair.running.admin.asker, "t", places)
    return [
        [body for run in piece for body in run.stretch.bodies()] async for piece in reading.pieces()
    ]


async def test_by_time_between_two_places(pair: Pair) -> None:
    one, other = pair.names
    (piece,) = await bodies(pair, Place(one, 2, 5), Place(other, 0, 4))
    assert piece == [b"m1", b"m3", b"m4", b"m5", b"m6", b"m7", b"m8"]
    assert await bodies(pair, Place(one, 5, 5)) == []


async def test_in_small_pieces(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PIECE_MESSAGES", 7)
    pieces = await bodies(pair, *(Place(node, 0, 20) for node in pair.names))
    assert [len(piece) for piece in pieces] == [7, 7, 7, 7, 7, 5]
    assert functools.reduce(operator.iadd, pieces, []) == [b"m%d" % number for number in range(40)]


async def test_a_node_that_cannot_be_read_is_named(pair: Pair) -> None:
    reading = Scan(pair.running.admin.asker, "t", [Place(pair.go.address, 0, 9),
                                                   Place(pair.names[0], 0, 3)])  # fmt: skip
    assert [sum(run.size for run in piece) async for piece in reading.pieces()] == [3]
    assert list(reading.failed) == [pair.go.address]

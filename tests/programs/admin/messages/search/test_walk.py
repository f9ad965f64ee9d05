"""A bounded walk: where it stands when a limit is reached, and after an error."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import pytest

from penstock.admin.messages.logs import Place
from penstock.admin.messages.search import walk as module
from penstock.admin.messages.search.walk import COUNTING, Budget, Hit, Scan, Walk
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
    monkeypatch.setattr(module, "PIECE_MESSAGES", 7)
    pieces = await bodies(pair, *(Place(node, 0, 20) for node in pair.names))
    assert [len(piece) for piece in pieces] == [7, 7, 7, 7, 7, 5]
    assert functools.reduce(operator.iadd, pieces, []) == [b"m%d" % number for number in range(40)]


async def test_a_node_that_cannot_be_read_is_named(pair: Pair) -> None:
    reading = Scan(pair.running.admin.asker, "t", [Place(pair.go.address, 0, 9),
                                                   Place(pair.names[0], 0, 3)])  # fmt: skip
    assert [sum(run.size for run in piece) async for piece in reading.pieces()] == [3]
    assert list(reading.failed) == [pair.go.address]


def walk_of(pair: Pair) -> Walk:
    return Walk(pair.running.admin.asker, "t", [Place(node, 0, 20) for node in pair.names])


async def test_it_stands_behind_the_last_that_it_has_found(pair: Pair) -> None:
    walk, seen = walk_of(pair), list[bytes]()

    async def take(hits: Sequence[Hit]) -> None:
        seen.extend(hit.message.body for hit in hits)

    await walk.run(lambda body: body.endswith(b"5"), Budget(2, seconds=60), take)
    assert seen == [b"m5", b"m15"]
    assert (walk.found, walk.found_bytes, walk.looked_at) == (2, 5, 16)
    assert walk.places == [Place(pair.names[0], 8, 20), Place(pair.names[1], 8, 20)]


async def test_after_an_error_it_stands_before_what_was_not_taken(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_MESSAGES", 10)
    walk = walk_of(pair)

    async def take(hits: Sequence[Hit]) -> None:
        if hits[0].message.body == b"m10":
            raise OSError

    with pytest.raises(OSError):
        await walk.run(None, Budget(COUNTING, seconds=60), take)
    assert (walk.found, walk.looked_at) == (10, 10)
    assert [place.at for place in walk.places] == [5, 5]


async def test_at_the_end_nothing_is_left(pair: Pair) -> None:
    walk = walk_of(pair)

    async def take(hits: Sequence[Hit]) -> None:
        pass

    await walk.run(None, Budget(COUNTING, seconds=60), take)
    assert (walk.found, walk.places, walk.failed) == (40, [], {})

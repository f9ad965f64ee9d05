"""A bounded walk: where it stands when a limit is reached, and after an error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.admin.messages.places import Place
from penstock.admin.messages.search import scan
from penstock.admin.messages.search.walk import COUNTING, Budget, Hit, Walk
from tests.programs.admin.messages.conftest import Pair


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
    monkeypatch.setattr(scan, "PIECE_MESSAGES", 10)
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

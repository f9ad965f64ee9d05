"""When a file ends."""

from __future__ import annotations

import pytest

from penstock.core.units import HOUR, SECOND
from penstock.nsq.tools.to_file.rotation import Rotation


@pytest.mark.parametrize(
    ("rotation", "name", "age", "nbytes", "reason"),
    [
        (Rotation(), "a", HOUR, 1 << 40, None),
        (Rotation(), "b", 0, 0, "new filename b"),
        (Rotation(10, HOUR), "a", HOUR, 10, None),
        (Rotation(10, HOUR), "a", HOUR + SECOND, 99, "1h0m1s since last open"),
        (Rotation(10, HOUR), "a", 0, 11, "/d/a currently 11 bytes (> 10)"),
        (Rotation(-1, -1), "a", HOUR, 11, None),
    ],
)
def test_reasons(rotation: Rotation, name: str, age: int, nbytes: int, reason: str | None) -> None:
    assert rotation.reason("a", name, age, "/d/a", nbytes) == reason


def test_room_ends_with_the_message_that_crosses_the_limit() -> None:
    bodies = [b"aaa", b"bbb", b"ccc", b"ddd", b"eee"]
    rotation = Rotation(size=5)
    assert rotation.room(0, bodies, 0) == 2
    assert rotation.room(0, bodies, 4) == 1
    assert rotation.room(5, bodies, 2) == 1
    assert Rotation(size=100).room(0, bodies, 1) == 4
    assert Rotation().room(1 << 40, bodies, 1) == 4


def test_a_file_may_be_filled_exactly() -> None:
    assert Rotation(size=4).room(0, [b"aaa", b"bbb"], 0) == 2
    assert Rotation(size=3).room(0, [b"aaa", b"bbb"], 0) == 1

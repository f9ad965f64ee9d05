from __future__ import annotations

import pytest

from penstock.broker.bounds import Bounds, Fill, Overflow


def test_no_bounds_are_false() -> None:
    assert not Bounds()
    assert not Bounds(overflow=Overflow.DROP_OLDEST)
    assert Bounds(max_depth=1)
    assert Bounds(max_bytes=1)


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (Bounds(10), "topic is full (max-depth 10)"),
        (Bounds(0, 99), "topic is full (max-bytes 99)"),
        (Bounds(10, 99), "topic is full (max-depth 10, max-bytes 99)"),
    ],
)
def test_refusals_name_the_bound(bounds: Bounds, text: str) -> None:
    assert str(bounds.refusal()) == text


@pytest.mark.parametrize(
    ("fill", "bounds", "surplus"),
    [
        (Fill(10, 1000), Bounds(10), 0),
        (Fill(12, 1000), Bounds(10), 2),
        (Fill(10, 1000), Bounds(0, 1000), 0),
        (Fill(10, 1000), Bounds(0, 901), 1),
        (Fill(10, 1000), Bounds(9, 500), 5),
        (Fill(10, 1000), Bounds(3, 900), 7),
        (Fill(0, 0), Bounds(1, 1), 0),
    ],
)
def test_surplus(fill: Fill, bounds: Bounds, surplus: int) -> None:
    assert fill.surplus(bounds) == surplus

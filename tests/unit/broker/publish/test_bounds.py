from __future__ import annotations

import pytest

from penstock.broker.publish.bounds import Bounds, Overflow


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

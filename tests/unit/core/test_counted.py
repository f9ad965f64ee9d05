"""Plurals."""

from __future__ import annotations

import pytest

from penstock.core.counted import counted


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages")]
)
def test_a_noun_follows_its_number(number: int, said: str) -> None:
    assert counted(number, "message") == said


def test_thousands_are_apart() -> None:
    assert counted(1_234_567, "row") == "1,234,567 rows"

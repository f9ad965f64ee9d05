"""The most that a promotion may lose: a time, or a number of messages."""

from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.node.max_lag import MAX_LAG, MaxLag


@pytest.mark.parametrize(
    ("text", "bound", "shown"),
    [("1s", MaxLag(), "1s"), ("0", MaxLag(messages=0), "0"),
     ("1h30m", MaxLag(5400 * SECOND), "1h30m0s"),
     ("1000", MaxLag(messages=1000), "1000"), ("0s", MaxLag(0), "0s")],
)  # fmt: skip
def test_a_bound_is_a_time_or_a_number_of_messages(text: str, bound: MaxLag, shown: str) -> None:
    assert MAX_LAG.from_flag(text) == MAX_LAG.from_config(text) == bound
    assert MAX_LAG.show(bound) == shown


@pytest.mark.parametrize("text", ["", "-1s", "-1", "1 s", "soon"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        MAX_LAG.from_flag(text)

from __future__ import annotations

import pytest

from penstock.admin.rocketmq.lags import Reading
from penstock.admin.rocketmq.paces import STEADY_S, Paces


def reading(end: int, consumed: int) -> Reading:
    return Reading("g", lags={"t": end - consumed}, end=end)


def looked(*looks: tuple[float, int, int]) -> tuple[float | None, float | None]:
    """The pace after looks at these times."""
    paces = Paces()
    for time_s, end, consumed in looks:
        paces.take(time_s, [reading(end, consumed)])
    pace = paces.of("g")
    assert pace
    return pace.came, pace.out


def test_one_look_makes_no_rate_and_two_do() -> None:
    assert looked((0, 100, 50)) == (None, None)
    assert looked((0, 100, 50), (10, 200, 70)) == (10, 2)


def test_looks_at_the_same_time_change_nothing() -> None:
    assert looked((0, 100, 50), (10, 200, 70), (10.5, 900, 70)) == (10, 2)


def test_rates_are_steady() -> None:
    came, _ = looked((0, 0, 0), (10, 100, 0), (10 + STEADY_S, 100, 0))
    assert came == pytest.approx(10 * 0.368, rel=0.01)


def test_offsets_that_go_back_make_the_pace_unknown() -> None:
    assert looked((0, 100, 50), (10, 200, 70), (20, 200, 0)) == (None, None)
    assert looked((0, 100, 50), (10, 200, 70), (20, 200, 0), (30, 200, 50)) == (0, 5)


def test_a_group_that_is_gone_is_forgotten() -> None:
    paces = Paces()
    paces.take(0, [reading(1, 1)])
    paces.take(5, [])
    assert paces.of("g") is None

from __future__ import annotations

from penstock.admin.rocketmq.lags import Reading
from penstock.admin.rocketmq.paces import APART_S, Paces
from penstock.admin.verdicts.trend import WINDOW_S


def reading(end: int, consumed: int, queues: int = 1) -> Reading:
    return Reading("g", lags={"t": end - consumed}, end=end, queues=queues)


def looked(*looks: tuple[float, int, int]) -> tuple[float | None, float | None]:
    """The pace after looks at these times."""
    paces = Paces()
    for time_s, end, consumed in looks:
        paces.take(time_s, [reading(end, consumed)])
    pace = paces.of("g")
    assert pace
    return pace.growth, pace.out


def test_two_looks_make_a_rate_and_three_a_slope() -> None:
    assert looked((0, 100, 50)) == (None, None)
    assert looked((0, 100, 50), (10, 200, 70)) == (None, 2)
    assert looked((0, 100, 50), (10, 200, 70), (20, 300, 90)) == (8, 2)


def test_looks_at_the_same_time_change_nothing() -> None:
    assert looked((0, 100, 50), (10, 200, 70), (10 + APART_S / 2, 900, 70)) == (None, 2)


def test_only_the_last_minutes_count() -> None:
    later = WINDOW_S + 10
    looks = [(later + time, 900 + time, 900) for time in (0, 10, 20)]
    assert looked((0, 100, 50), *looks) == (1, 0)


def test_offsets_that_go_back_make_the_pace_unknown() -> None:
    assert looked((0, 100, 50), (10, 200, 70), (20, 200, 0)) == (None, None)
    assert looked((0, 100, 50), (10, 200, 70), (20, 200, 0), (30, 200, 50)) == (None, 5)


def test_a_broker_that_answers_again_is_no_growth() -> None:
    paces = Paces()
    for time_s, queues in ((0, 2), (10, 1), (20, 1), (30, 1), (40, 2), (50, 2), (60, 2)):
        paces.take(time_s, [reading(queues * 1000 + time_s, time_s, queues)])
    pace = paces.of("g")
    assert pace
    assert (pace.growth, pace.out) == (0, 1)


def test_a_clock_that_is_set_back_makes_the_pace_unknown() -> None:
    assert looked((1000, 100, 50), (1010, 200, 70), (500, 300, 90)) == (None, None)


def test_a_group_that_is_gone_is_forgotten() -> None:
    paces = Paces()
    paces.take(0, [reading(1, 1)])
    paces.take(5, [])
    assert paces.of("g") is None

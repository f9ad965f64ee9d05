"""Totals, rates, days and times of puts."""

from __future__ import annotations

from operator import attrgetter

from penstock.core.units import HOUR, SECOND
from penstock.rocketmq.broker.state.totals import Day, Totals
from penstock.testing.clock import FakeClock


def test_rates_over_ten_seconds_a_minute_and_ten() -> None:
    clock = FakeClock()
    totals = Totals(clock)
    assert totals.rates(attrgetter("put")) == "0.0 0.0 0.0"
    for second in range(700):
        totals.put_messages += 2 if second >= 690 else 1
        clock.advance(SECOND)
        totals.tick()
    assert totals.rates(attrgetter("put")) == f"2.0 {70 / 60} {610 / 600}"


def test_rates_of_a_broker_that_just_started() -> None:
    clock = FakeClock()
    totals = Totals(clock)
    totals.got_messages = 9
    clock.advance(3 * SECOND)
    totals.tick()
    assert totals.rates(attrgetter("got")) == "3.0 3.0 3.0"


def test_totals_of_the_last_mornings() -> None:
    clock = FakeClock()
    totals = Totals(clock)
    totals.put_messages, totals.got_messages = 5, 3
    totals.tick()
    assert (totals.yesterday, totals.today) == (Day(), Day())
    clock.advance(24 * HOUR)
    totals.tick()
    assert (totals.yesterday, totals.today) == (Day(), Day(5, 3))
    totals.put_messages = 8
    clock.advance(24 * HOUR)
    totals.tick()
    clock.advance(SECOND)
    totals.tick()
    assert (totals.yesterday, totals.today) == (Day(5, 3), Day(8, 3))
    clock.set_wall(clock.wall_ns() - 72 * HOUR)
    totals.tick()
    assert totals.today == Day(8, 3)


def test_times_of_puts_are_those_of_the_last_whole_minute() -> None:
    clock = FakeClock()
    totals = Totals(clock)
    for ms in [0] * 98 + [9, 12_345]:
        totals.put_took(ms)
    assert totals.put_time_quantile(0.5) == 0.0
    assert totals.put_time_distribution().startswith("[<=0ms]:0 [0~10ms]:0 ")
    clock.advance(60 * SECOND)
    totals.tick()
    assert totals.put_time_quantile(0.98) == 0.0
    assert totals.put_time_quantile(0.99) == 9.0
    assert totals.put_time_quantile(0.999) == 10_000.0
    assert totals.slowest_put_ms == 12_345
    assert totals.put_time_distribution() == (
        "[<=0ms]:98 [0~10ms]:1 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
    )
    clock.advance(60 * SECOND)
    totals.tick()
    assert totals.put_time_quantile(0.999) == 0.0


def test_the_average_size() -> None:
    totals = Totals(FakeClock())
    assert totals.average_put_bytes == 0.0
    totals.put_messages, totals.put_bytes = 4, 10
    assert totals.average_put_bytes == 2.5

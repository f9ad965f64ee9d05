"""The rates of a consumer, as tools read them."""

from __future__ import annotations

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.handling_rates import HandlingRates
from penstock.testing.clock import FakeClock

NOTHING = {"pullRT": 0.0, "pullTPS": 0.0, "consumeRT": 0.0, "consumeOKTPS": 0.0,
           "consumeFailedTPS": 0.0, "consumeFailedMsgs": 0}  # fmt: skip


def pass_minutes(rates: HandlingRates, clock: FakeClock, minutes: int) -> None:
    for _ in range(6 * minutes):
        clock.advance(10 * SECOND)
        rates.sample()


def test_rates_are_those_since_the_oldest_sample() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    assert rates.status("T") == NOTHING
    rates.pulled("T", 30 * MILLISECOND, 32)
    rates.pulled("T", 10 * MILLISECOND, 8)
    rates.handled("T", 6 * MILLISECOND, 3, succeeded=True)
    rates.handled("T", 2 * MILLISECOND, 1, succeeded=False)
    clock.advance(4 * SECOND)
    assert rates.status("T") == {
        "pullRT": 20.0, "pullTPS": 10.0, "consumeRT": 4.0, "consumeOKTPS": 0.75,
        "consumeFailedTPS": 0.25, "consumeFailedMsgs": 1,
    }  # fmt: skip
    assert rates.status("Other") == NOTHING


def test_a_minute_is_forgotten_sooner_than_an_hour() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    rates.handled("T", 6 * MILLISECOND, 2, succeeded=False)
    pass_minutes(rates, clock, 2)
    assert rates.status("T") == {**NOTHING, "consumeRT": 6.0, "consumeFailedMsgs": 2}
    pass_minutes(rates, clock, 80)
    assert rates.status("T") == NOTHING


def test_the_first_second_is_a_whole_one() -> None:
    clock = FakeClock()
    rates = HandlingRates(clock)
    clock.advance(MILLISECOND)
    rates.handled("T", 0, 5, succeeded=True)
    assert rates.status("T")["consumeOKTPS"] == 5.0

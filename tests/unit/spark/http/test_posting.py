"""Pauses of an endpoint that is out, and what it says about them."""

from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.spark.http.posting import Outage, retry_after_s
from penstock.testing.clock import FakeClock


def fail(outage: Outage, clock: FakeClock) -> float:
    """A request that fails at once when it may be sent; the pause that follows."""
    clock.advance(int(outage.wait_s * SECOND))
    outage.failed(clock.monotonic_ns())
    return outage.wait_s


def test_pauses_double_to_half_a_minute_and_begin_again_after_an_answer() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    assert outage.wait_s == 0
    pauses = [fail(outage, clock) for _ in range(10)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    clock.advance(30 * SECOND)
    outage.ended()
    assert fail(outage, clock) == 0.2


def test_requests_that_fail_together_make_one_pause() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    asked_ns = clock.monotonic_ns()
    for _ in range(8):
        outage.failed(asked_ns)
    assert outage.wait_s == 0.2


def test_the_longest_word_of_the_endpoint_counts() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    outage.failed(clock.monotonic_ns(), 90)
    outage.failed(clock.monotonic_ns(), 60)
    assert outage.wait_s == 90
    outage.ended()  # of a request that was under way
    assert outage.wait_s == 90


def test_it_is_said_after_five_seconds_and_then_every_half_minute() -> None:
    clock = FakeClock()
    outage = Outage(clock)
    said = []
    for _ in range(71):
        lasted_s = outage.failed(clock.monotonic_ns())
        said += [] if lasted_s is None else [lasted_s]
        clock.advance(SECOND)
    assert said == [5, 35, 65]
    assert outage.ended() == 71
    assert outage.ended() is None
    outage.failed(clock.monotonic_ns())
    assert outage.ended() is None, "a failure that passed at once is no news"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", 0), ("soon", 0), ("-5", 0), ("1.5", 0), ("\u0663", 0), (" 7 ", 7), ("0", 0),
        ("3601", 3600), ("9" * 5000, 3600),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 1970 00:02:00 -0000", 20), ("Thu, 01 Jan 9999 00:00:00 GMT", 3600),
        ("Thu, 99 Jan 1970 00:00:00 GMT", 0),
    ],
)  # fmt: skip
def test_the_header_is_seconds_or_a_date_and_bounded(given: str, expected: float) -> None:
    assert retry_after_s(given, FakeClock(100 * SECOND)) == expected

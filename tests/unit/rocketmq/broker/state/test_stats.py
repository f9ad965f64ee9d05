"""Counters by topic and group with their windows; totals, rates, days and times of puts."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pytest

from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker.state import stats as stats_module
from penstock.rocketmq.broker.state.stats import Stats
from penstock.rocketmq.broker.state.totals import Day, Totals
from penstock.testing.clock import FakeClock

NOTHING = {"avgpt": 0.0, "sum": 0, "tps": 0.0}


@pytest.fixture
def stats(clock: FakeClock) -> Stats:
    return Stats("c", clock)


def pass_time(stats: Stats, clock: FakeClock, ns: int, step: int = 10 * SECOND) -> None:
    for _ in range(ns // step):
        clock.advance(step)
        stats.tick()


def windows(stats: Stats, name: str, key: str) -> tuple[dict[str, float], ...]:
    """The last minute, hour and day of what was counted."""
    found = stats.view(name, key)
    assert found is not None
    return tuple(found[f"stats{window}"] for window in ("Minute", "Hour", "Day"))


def test_a_minute_has_sum_rate_and_amount_a_time(stats: Stats, clock: FakeClock) -> None:
    stats.tick()
    pass_time(stats, clock, MINUTE)
    stats.put("T", 30, 3000)
    stats.put("T", 10, 1000)
    assert windows(stats, "TOPIC_PUT_NUMS", "T") == (NOTHING, NOTHING, NOTHING)
    pass_time(stats, clock, 10 * SECOND)
    for name, minute in (
        ("TOPIC_PUT_NUMS", {"avgpt": 20.0, "sum": 40, "tps": 4.0}),
        ("TOPIC_PUT_SIZE", {"avgpt": 2000.0, "sum": 4000, "tps": 400.0}),
    ):
        assert windows(stats, name, "T") == (minute, NOTHING, NOTHING)
    pass_time(stats, clock, 50 * SECOND)
    assert windows(stats, "TOPIC_PUT_NUMS", "T")[0]["tps"] == 40 / 60
    pass_time(stats, clock, 10 * SECOND)
    assert windows(stats, "TOPIC_PUT_NUMS", "T")[0] == NOTHING


def test_hours_and_days(stats: Stats, clock: FakeClock) -> None:
    stats.put("T", 6, 600)
    stats.tick()
    _, hour, day = windows(stats, "TOPIC_PUT_NUMS", "T")
    assert hour == {"avgpt": 6.0, "sum": 6, "tps": 6 / 600}
    assert day == {"avgpt": 6.0, "sum": 6, "tps": 6 / 3600}
    pass_time(stats, clock, HOUR, MINUTE)
    _, hour, day = windows(stats, "TOPIC_PUT_NUMS", "T")
    assert (hour, day["sum"]) == (NOTHING, 6)


def test_keys_are_those_of_the_java_broker(stats: Stats, clock: FakeClock) -> None:
    stats.put("T", 1, 100)
    began = stats.put_begins()
    clock.advance(7 * MILLISECOND)
    stats.put_ends("T", 3, began)
    stats.got("T", "G", 5, 500)
    began = stats.get_begins()
    clock.advance(2 * MILLISECOND)
    stats.get_ends("T", "G", began)
    stats.sent_back("T", "G")
    stats.dead_lettered("T", "G")
    stats.missed()
    stats.put_failed()
    stats.tick()
    for name, key, total in (
        ("TOPIC_PUT_NUMS", "T", 1), ("TOPIC_PUT_SIZE", "T", 100), ("TOPIC_PUT_LATENCY", "3@T", 7),
        ("GROUP_GET_NUMS", "T@G", 5), ("GROUP_GET_SIZE", "T@G", 500),
        ("GROUP_GET_LATENCY", "T@G", 2), ("SNDBCK_PUT_NUMS", "T@G", 1), ("DLQ_PUT_NUMS", "T@G", 1),
        ("BROKER_PUT_NUMS", "c", 1), ("BROKER_GET_NUMS", "c", 5),
    ):  # fmt: skip
        assert windows(stats, name, key)[0]["sum"] == total, name
    for name, key in (("TOPIC_PUT_NUMS", "U"), ("NO_SUCH", "T"), ("", "")):
        assert stats.view(name, key) is None
    totals = stats.totals
    assert (totals.found, totals.missed, totals.got_messages, totals.put_failures) == (1, 1, 5, 1)


def test_the_rate_of_a_group(stats: Stats, clock: FakeClock) -> None:
    assert stats.got_per_second("T", "G") == 0.0
    stats.tick()
    stats.got("T", "G", 20, 1)
    pass_time(stats, clock, 10 * SECOND)
    assert stats.got_per_second("T", "G") == 2.0


def test_forgetting_a_topic_or_a_group(stats: Stats) -> None:
    for topic, group in (("T", "G"), ("T", "H"), ("TT", "G")):
        stats.put(topic, 1, 1)
        stats.put_ends(topic, 0, 1)
        stats.got(topic, group, 1, 1)
        stats.sent_back(topic, group)
    stats.forget_topic("T")
    for name, key, is_left in (
        ("TOPIC_PUT_NUMS", "T", False), ("TOPIC_PUT_LATENCY", "0@T", False),
        ("GROUP_GET_NUMS", "T@H", False), ("TOPIC_PUT_LATENCY", "0@TT", True),
    ):  # fmt: skip
        assert (stats.view(name, key) is not None) is is_left, (name, key)
    stats.forget_group("G")
    assert stats.view("SNDBCK_PUT_NUMS", "TT@G") is None
    assert stats.view("TOPIC_PUT_NUMS", "TT") is not None


@pytest.mark.parametrize("begins", [Stats.put_begins, Stats.get_begins])
def test_the_time_of_some_is_taken(
    begins: Callable[[Stats], int], stats: Stats, clock: FakeClock
) -> None:
    timed = [begins(stats) for _ in range(3 * stats_module.TIMED_EVERY)]
    assert timed.count(clock.monotonic_ns()) == 3
    assert timed.count(0) == len(timed) - 3


def test_the_number_of_keys_is_bounded(stats: Stats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "KEYS_MAX", 2)
    for topic in ("T1", "T2", "T3", "T1"):
        stats.put(topic, 1, 10)
    stats.tick()
    assert stats.view("TOPIC_PUT_NUMS", "T3") is None
    assert windows(stats, "TOPIC_PUT_NUMS", "T1")[0]["sum"] == 2
    assert windows(stats, "BROKER_PUT_NUMS", "c")[0]["sum"] == 4


def test_what_is_idle_for_a_day_is_dropped_but_for_the_broker(
    stats: Stats, clock: FakeClock
) -> None:
    stats.put("idle", 1, 1)
    for _ in range(26):
        stats.put("busy", 1, 1)
        pass_time(stats, clock, HOUR, HOUR)
    for name, key, is_left in (
        ("TOPIC_PUT_NUMS", "idle", False), ("TOPIC_PUT_NUMS", "busy", True),
        ("BROKER_GET_NUMS", "c", True),
    ):  # fmt: skip
        assert (stats.view(name, key) is not None) is is_left, key


# --- totals ---------------------------------------------------------------------------------------


@pytest.fixture
def totals(clock: FakeClock) -> Totals:
    return Totals(clock)


def test_rates_over_ten_seconds_a_minute_and_ten(totals: Totals, clock: FakeClock) -> None:
    assert totals.rates(attrgetter("put")) == "0.0 0.0 0.0"
    totals.got_messages = 9
    for second in range(700):
        totals.put_messages += 2 if second >= 690 else 1
        clock.advance(SECOND)
        totals.tick()
        if second == 2:  # of a broker that just started
            assert totals.rates(attrgetter("got")) == "3.0 3.0 3.0"
    assert totals.rates(attrgetter("put")) == f"2.0 {70 / 60} {610 / 600}"


def test_the_average_size(totals: Totals) -> None:
    assert totals.average_put_bytes == 0.0
    totals.put_messages, totals.put_bytes = 4, 10
    assert totals.average_put_bytes == 2.5


def test_totals_of_the_last_mornings(totals: Totals, clock: FakeClock) -> None:
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


def test_times_of_puts_are_those_of_the_last_whole_minute(totals: Totals, clock: FakeClock) -> None:
    for ms in [0] * 98 + [9, 12_345]:
        totals.put_took(ms)
    assert totals.put_time_quantile(0.5) == 0.0
    assert totals.put_time_distribution().startswith("[<=0ms]:0 [0~10ms]:0 ")
    clock.advance(60 * SECOND)
    totals.tick()
    quantiles = [totals.put_time_quantile(share) for share in (0.98, 0.99, 0.999)]
    assert quantiles == [0.0, 9.0, 10_000.0]
    assert totals.slowest_put_ms == 12_345
    assert totals.put_time_distribution() == (
        "[<=0ms]:98 [0~10ms]:1 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
    )
    clock.advance(60 * SECOND)
    totals.tick()
    assert totals.put_time_quantile(0.999) == 0.0

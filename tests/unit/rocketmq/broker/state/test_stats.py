"""Counters by topic and group, and their windows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker.state import stats as stats_module
from penstock.rocketmq.broker.state.stats import Stats
from penstock.testing.clock import FakeClock

NOTHING = {"avgpt": 0.0, "sum": 0, "tps": 0.0}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stats(clock: FakeClock) -> Stats:
    return Stats("c", clock)


def pass_time(stats: Stats, clock: FakeClock, ns: int, step: int = 10 * SECOND) -> None:
    for _ in range(ns // step):
        clock.advance(step)
        stats.tick()


def test_a_minute_has_sum_rate_and_amount_a_time(stats: Stats, clock: FakeClock) -> None:
    stats.tick()
    pass_time(stats, clock, MINUTE)
    stats.put("T", 30, 3000)
    stats.put("T", 10, 1000)
    assert stats.view("TOPIC_PUT_NUMS", "T") == {
        "statsMinute": NOTHING, "statsHour": NOTHING, "statsDay": NOTHING,
    }  # fmt: skip
    pass_time(stats, clock, 10 * SECOND)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found["statsMinute"] == {"avgpt": 20.0, "sum": 40, "tps": 4.0}
    assert found["statsHour"] == found["statsDay"] == NOTHING
    sizes = stats.view("TOPIC_PUT_SIZE", "T")
    assert sizes is not None
    assert sizes["statsMinute"] == {"avgpt": 2000.0, "sum": 4000, "tps": 400.0}
    pass_time(stats, clock, 50 * SECOND)
    assert stats.view("TOPIC_PUT_NUMS", "T")["statsMinute"]["tps"] == 40 / 60  # type: ignore[index]
    pass_time(stats, clock, 10 * SECOND)
    assert stats.view("TOPIC_PUT_NUMS", "T")["statsMinute"] == NOTHING  # type: ignore[index]


def test_hours_and_days(stats: Stats, clock: FakeClock) -> None:
    stats.put("T", 6, 600)
    stats.tick()
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found["statsHour"] == {"avgpt": 6.0, "sum": 6, "tps": 6 / 600}
    assert found["statsDay"] == {"avgpt": 6.0, "sum": 6, "tps": 6 / 3600}
    pass_time(stats, clock, HOUR, MINUTE)
    found = stats.view("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found["statsHour"] == NOTHING
    assert found["statsDay"]["sum"] == 6


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
    stats.tick()
    sums = {
        (name, key): stats.view(name, key)["statsMinute"]["sum"]  # type: ignore[index]
        for name, key in (
            ("TOPIC_PUT_NUMS", "T"), ("TOPIC_PUT_SIZE", "T"), ("TOPIC_PUT_LATENCY", "3@T"),
            ("GROUP_GET_NUMS", "T@G"), ("GROUP_GET_SIZE", "T@G"), ("GROUP_GET_LATENCY", "T@G"),
            ("SNDBCK_PUT_NUMS", "T@G"), ("DLQ_PUT_NUMS", "T@G"), ("BROKER_PUT_NUMS", "c"),
            ("BROKER_GET_NUMS", "c"),
        )
    }  # fmt: skip
    assert list(sums.values()) == [1, 100, 7, 5, 500, 2, 1, 1, 1, 5]


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "U"), ("NO_SUCH", "T"), ("", "")])
def test_what_was_never_counted_is_none(stats: Stats, name: str, key: str) -> None:
    stats.put("T", 1, 1)
    assert stats.view(name, key) is None


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
    assert stats.view("TOPIC_PUT_NUMS", "T") is None
    assert stats.view("TOPIC_PUT_LATENCY", "0@T") is None
    assert stats.view("GROUP_GET_NUMS", "T@H") is None
    assert stats.view("TOPIC_PUT_LATENCY", "0@TT") is not None
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


def test_totals_of_pulls_and_failures(stats: Stats) -> None:
    stats.got("T", "G", 5, 1)
    stats.missed()
    stats.put_failed()
    totals = stats.totals
    assert (totals.found, totals.missed, totals.got_messages, totals.put_failures) == (1, 1, 5, 1)


def test_the_number_of_keys_is_bounded(stats: Stats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "KEYS_MAX", 2)
    for topic in ("T1", "T2", "T3", "T1"):
        stats.put(topic, 1, 10)
    stats.tick()
    assert stats.view("TOPIC_PUT_NUMS", "T3") is None
    assert stats.view("TOPIC_PUT_NUMS", "T1")["statsMinute"]["sum"] == 2  # type: ignore[index]
    assert stats.view("BROKER_PUT_NUMS", "c")["statsMinute"]["sum"] == 4  # type: ignore[index]


def test_what_is_idle_for_a_day_is_dropped_but_for_the_broker(
    stats: Stats, clock: FakeClock
) -> None:
    stats.put("idle", 1, 1)
    stats.put("busy", 1, 1)
    for _ in range(26):
        stats.put("busy", 1, 1)
        pass_time(stats, clock, HOUR, HOUR)
    assert stats.view("TOPIC_PUT_NUMS", "idle") is None
    assert stats.view("TOPIC_PUT_NUMS", "busy") is not None
    assert stats.view("BROKER_GET_NUMS", "c") is not None

"""What needs attention: trends of lags, one rule for channels and groups, and items by weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from penstock.admin.history.layout import Layout
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.rocketmq.group_rates import GroupRate
from penstock.admin.rocketmq.verdicts import GroupFacts, of_group
from penstock.admin.verdicts import attention as attention_module
from penstock.admin.verdicts.attention import Attention, Figures
from penstock.admin.verdicts.rule import verdict
from penstock.admin.verdicts.trend import Steady, slopes


def test_rates_are_steady() -> None:
    steady, seen = Steady(), []
    for number, rate in enumerate((0, 0, 100, 0, 0, 0, 0)):
        steady.take(10.0 * number, np.array([[float(rate)]]), np.ones(1, bool))
        seen.append(steady.rates[0, 0])
    assert seen[1] == 0
    assert 20 < seen[2] < 40
    assert seen[2:] == sorted(seen[2:], reverse=True)


def test_what_is_new_or_was_away_has_no_past() -> None:
    steady, both = Steady(), np.ones(2, bool)
    steady.take(0.0, np.array([[9.0]]), np.ones(1, bool))
    assert np.isnan(steady.rates[0, 0])  # a rate takes two looks
    steady.take(10.0, np.array([[9.0, 0.0]]), both)
    assert steady.rates[0].tolist() == pytest.approx([9, math.nan], nan_ok=True)
    steady.take(20.0, np.array([[np.nan, 5.0]]), both)
    assert steady.rates[0].tolist() == pytest.approx([math.nan, 5], nan_ok=True)
    steady.take(30.0, np.array([[1.0, 7.0]]), np.array([True, False]))
    assert np.isnan(steady.rates[0]).all()
    steady.take(40.0, np.array([[1.0, 7.0]]), both)
    assert steady.rates[0].tolist() == [1, 7]


def test_a_clock_that_is_set_back_costs_no_look() -> None:
    steady, one = Steady(), np.ones(1, bool)
    for time in (1e6, 1e6 + 10, 10.0, 20.0):
        steady.take(time, np.array([[9.0]]), one)
    assert steady.rates[0, 0] == 9


@pytest.mark.parametrize(
    ("times", "lags", "slope"),
    [
        ([0, 10, 20, 30], [100, 120, 140, 160], 2),
        ([0, 10, 20, 30], [60, 50, 40, 30], -1),
        ([0, 10, 20, 30], [5, 5, 5, 5], 0),
        ([0, 10, 20, 30], [100, math.nan, 140, 160], 2),
        ([0, 10], [100, 120], math.nan),
        ([0, 1, 2], [100, 120, 90], math.nan),
        ([], [], math.nan),
        ([*range(0, 60, 5)], [0, 100, 200] * 4, 0),
    ],
    ids=["grows", "shrinks", "level", "gap", "two", "short", "none", "batches"],
)
def test_slopes(times: list[float], lags: list[float], slope: float) -> None:
    found = slopes(np.array(times, float), np.array(lags, float).reshape(-1, 1))
    assert found.tolist() == pytest.approx([slope], nan_ok=True)


def test_a_group_that_commits_once_a_minute_does_not_turn_with_each_commit() -> None:
    """It reads all that comes: between commits its lag grows by 100 a second."""
    times = np.arange(0, 300, 10.0)
    for shift in range(0, 60, 10):
        lags = ((times + shift) % 60) * 100
        assert slopes(times, lags[:, None])[0] == 0


@pytest.mark.parametrize(
    ("waiting", "kind", "level", "seconds"),
    [
        ((0, 0, 0, 0), "caught_up", "", None),
        ((5, 0, 0, 0), "unattended", "warn", None),
        ((1000, None, None, 0), "unattended", "bad", None),
        ((40, 9, 10, 1), "keeps_up", "", None),
        ((40_000, 9, 10_000, 1), "keeps_up", "", None),
        ((1800, -10, 10, 1), "catching_up", "", 180),
        ((1800, -10, 0, None), "catching_up", "", 180),
        ((7200, -1, 10, 1), "catching_up", "warn", 7200),
        ((100_000, -1, 10, 1), "level", "warn", None),
        ((1800, 5, 10, None), "growing", "bad", None),
        ((999, 5, 10, None), "growing", "", None),
        ((1800, 0.2, 10, None), "level", "warn", None),
        ((1800, 5, 0, None), "stopped", "bad", None),
        ((999, 5, 0, None), "stopped", "", None),
        ((1800, None, 10, None), "unknown", "warn", 180),
        ((1800, None, None, None), "unknown", "warn", None),
    ],
)
def test_verdicts(waiting: Any, kind: str, level: str, seconds: float | None) -> None:
    found = verdict(*waiting)
    assert (found["kind"], found["level"], found["seconds"]) == (kind, level, seconds)
    assert (found["depth"], found["growth"]) == waiting[:2]


@pytest.mark.parametrize(("growth", "out"), [(-10, 50), (0, 50), (10, 50), (0, 0), (10, 0)])
def test_a_group_has_one_verdict_on_the_overview_in_lists_and_in_both_dialects(
    growth: float, out: float
) -> None:
    listed = verdict(9000, growth, out, 1)
    rows = Rows(10)
    rows.row(Key("t", "@g"), 1.0)
    one = {name: np.zeros(1) for name in Figures._fields}
    told = {"depth": 9000.0, "growth": growth, "out": out, "clients": 1.0}
    figures = Figures(**one | {name: np.array([value]) for name, value in told.items()})
    overview = Attention(figures, Layout(rows)).items()[0]
    rate = GroupRate()
    for time_s in range(0, 60, 10):
        consumed = int(out * time_s)
        rate.take(time_s, 9000 + consumed + int(growth * (time_s - 50)), consumed)
    rocketmq = of_group(GroupFacts(9000, 1, rate=rate))
    expected = [(listed["kind"], listed["level"])] if listed["level"] else []
    assert [(each["kind"], each["level"]) for each in overview] == expected
    assert [(each["kind"], each["level"]) for each in rocketmq] == expected


def row(topic: str, channel: str = "", **figures: float) -> tuple[Key, dict[str, float]]:
    """A row and its figures; `came` is what comes in a second."""
    plain = dict.fromkeys(Figures._fields, 0.0)
    facts = {"clients": 1.0, "channels": 0.0 if channel else 1.0}
    return Key(topic, channel), {**plain, **facts, **figures}


def found(*rows: tuple[Key, dict[str, float]], of: str = "") -> list[dict[str, Any]]:
    named = Rows(100)
    for key, _ in rows:
        named.row(key, 1.0)
    columns = (np.array([figures[name] for _, figures in rows]) for name in Figures._fields)
    return Attention(Figures(*columns), Layout(named)).items(of)[0]


ROWS: list[tuple[tuple[Key, dict[str, float]], tuple[str, str] | None]] = [
    (row("t", "c"), None),
    (row("t", "c", depth=999, came=9), None),
    (row("t", "c", depth=1000, out=50, came=50), ("level", "warn")),
    (row("t", "c", depth=1000, out=40, came=50), ("growing", "bad")),
    (row("t", "c", depth=1000, out=51, came=50), None),  # empty in 1,000 seconds
    (row("t", "c", depth=9000, out=51, came=50), ("catching_up", "warn")),
    (row("t", "c", depth=1000), ("stopped", "bad")),
    (row("t", "c", depth=1, clients=0), ("unattended", "warn")),
    (row("t", "c", depth=1000, clients=0), ("unattended", "bad")),
    (row("t", "c", clients=0), None),
    (row("t", "c", depth=5000, clients=0, paused=1), ("paused", "warn")),
    (row("t", "c", requeues=0.9), None),
    (row("t", "c", requeues=1, out=9), ("requeues", "warn")),
    (row("t", "c", requeues=1, out=10), None),
    (row("t", "c", timeouts=5, out=2), ("timeouts", "warn")),
    (row("t", "@g", depth=5000, clients=math.nan, out=50, growth=2), ("growing", "bad")),
    (row("t", "@g", depth=5000, clients=math.nan, out=50, growth=-9), None),
    (row("t", "@g", depth=5000, clients=math.nan, growth=math.nan), ("unknown", "warn")),
    (row("t", "@g", depth=5, clients=0), ("unattended", "warn")),
    (row("t", paused=1), ("paused", "warn")),
    (row("t", depth=3, channels=0), ("unchannelled", "warn")),
    (row("t", depth=3), None),
    (row("", depth=3, channels=0, clients=0, paused=1), None),
]
"""A row, and what is the matter with it."""


@pytest.mark.parametrize(("given", "expected"), ROWS)
def test_thresholds(given: tuple[Key, dict[str, float]], expected: tuple[str, str] | None) -> None:
    assert [(each["kind"], each["level"]) for each in found(given)] == ([expected] if expected
                                                                        else [])  # fmt: skip


def test_the_worst_comes_first_with_the_figures_that_words_are_made_of() -> None:
    items = found(
        row("a", "paused", paused=1, depth=7),
        row("a", "deep", depth=2000, clients=0),
        row("a"),
        row("a", "deeper", depth=3000, clients=0, came=5),
    )
    assert [each["names"] for each in items] == [["a", "deeper"], ["a", "deep"], ["a", "paused"]]
    assert (items[0]["depth"], items[0]["growth"], items[0]["weight"]) == (3000, 5, 3000)
    (lasting,) = found(row("t", "c", depth=7200, out=51, came=50))
    assert lasting["seconds"] == 7200
    (storm,) = found(row("t", "c", out=3, requeues=1))
    assert (storm["rate"], storm["share"]) == (1, 0.25)


def test_a_topic_whose_log_is_read_needs_no_channel() -> None:
    lonely = row("t", depth=3, channels=0)
    assert len(found(lonely, row("u", "@g"))) == 1
    assert found(lonely, row("t", "@g")) == []
    assert len(found(lonely, row("t", "@g", depth=float("nan")))) == 1  # it was there


def test_items_are_bounded_and_groups_say_of_which_dialect_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = Rows(10)
    for name in ("a", "@g", "c", "@h"):
        named.row(Key("t", name), 1.0)
    depth, none = np.array([1.0, 4.0, 2.0, 3.0]), np.zeros(4)
    dialects = {("t", "@g"): "rocketmq", ("t", "@h"): "log"}
    whole = Attention(Figures(depth, *[none] * 8), Layout(named), dialects)
    assert [(each["names"][1], each["dialect"]) for each in whole.items()[0]] == [
        ("@g", "rocketmq"), ("@h", "log"), ("c", None), ("a", None),
    ]  # fmt: skip
    monkeypatch.setattr(attention_module, "ITEMS_MAX", 2)
    items, count = whole.items()
    assert ([each["names"] for each in items], count) == ([["t", "@g"], ["t", "@h"]], 4)


def test_a_topic_by_itself() -> None:
    rows = row("a", paused=1), row("b", "c", depth=7, clients=0), row("b", paused=1)
    assert [each["names"] for each in found(*rows, of="b")] == [["b", "c"], ["b"]]
    assert found(*rows, of="none") == []

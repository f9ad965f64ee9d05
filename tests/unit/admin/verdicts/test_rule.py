"""One rule for channels and groups of both dialects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.admin.history.layout import Layout
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.rocketmq.paces import Pace
from penstock.admin.rocketmq.verdicts import Facts, of_group
from penstock.admin.verdicts.attention import Attention, Figures
from penstock.admin.verdicts.rule import verdict


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
    pace = Pace()
    for time_s in range(0, 60, 10):
        consumed = int(out * time_s)
        pace.take(time_s, 9000 + consumed + int(growth * (time_s - 50)), consumed)
    rocketmq = of_group(Facts(9000, 1, pace=pace))
    expected = [(listed["kind"], listed["level"])] if listed["level"] else []
    assert [(each["kind"], each["level"]) for each in overview] == expected
    assert [(each["kind"], each["level"]) for each in rocketmq] == expected

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from penstock.admin.history.layout import Layout
from penstock.admin.history.row_numbers import Key, Rows
from penstock.admin.verdicts import attention as attention_module
from penstock.admin.verdicts.attention import Attention, Figures


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


def test_the_worst_comes_first() -> None:
    items = found(
        row("a", "paused", paused=1, depth=7),
        row("a", "deep", depth=2000, clients=0),
        row("a"),
        row("a", "deeper", depth=3000, clients=0, came=5),
    )
    assert [each["names"] for each in items] == [["a", "deeper"], ["a", "deep"], ["a", "paused"]]
    assert (items[0]["depth"], items[0]["growth"], items[0]["weight"]) == (3000, 5, 3000)


def test_words_are_made_of() -> None:
    (lasting,) = found(row("t", "c", depth=7200, out=51, came=50))
    assert lasting["seconds"] == 7200
    (storm,) = found(row("t", "c", out=3, requeues=1))
    assert (storm["rate"], storm["share"]) == (1, 0.25)


def test_a_topic_whose_log_is_read_needs_no_channel() -> None:
    lonely = row("t", depth=3, channels=0)
    assert len(found(lonely, row("u", "@g"))) == 1
    assert found(lonely, row("t", "@g")) == []
    assert len(found(lonely, row("t", "@g", depth=float("nan")))) == 1  # it was there


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "ITEMS_MAX", 2)
    rows = Rows(10)
    for name in "abcd":
        rows.row(Key("t", name), 1.0)
    depth, none = np.array([1.0, 4.0, 2.0, 3.0]), np.zeros(4)
    items, count = Attention(Figures(depth, *[none] * 8), Layout(rows)).items()
    assert [each["names"] for each in items] == [["t", "b"], ["t", "d"]]
    assert count == 4


def test_a_topic_by_itself() -> None:
    rows = row("a", paused=1), row("b", "c", depth=7, clients=0), row("b", paused=1)
    assert [each["names"] for each in found(*rows, of="b")] == [["b", "c"], ["b"]]
    assert found(*rows, of="none") == []


def test_a_group_says_of_which_dialect_it_is() -> None:
    rows = Rows(10)
    for name in ("@g", "@h", "c"):
        rows.row(Key("t", name), 1.0)
    depth, none = np.array([3.0, 2.0, 1.0]), np.zeros(3)
    dialects = {("t", "@g"): "rocketmq", ("t", "@h"): "log"}
    items, _ = Attention(Figures(depth, *[none] * 8), Layout(rows), dialects).items()
    assert [each["dialect"] for each in items] == ["rocketmq", "log", None]

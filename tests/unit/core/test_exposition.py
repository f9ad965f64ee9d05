from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.exposition import Metric, labels, number


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (17, "17"),
        (-3, "-3"),
        (10**20, "100000000000000000000"),
        (True, "1"),
        (False, "0"),
        (1.0, "1"),
        (0.99, "0.99"),
        (1e-7, "1e-07"),
        (1.5e300, "1.5e+300"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown
    assert math.isnan(value) or float(shown) == value


def test_labels() -> None:
    assert labels({}) == ""
    assert labels({"topic": "t", "channel": "c#ephemeral"}) == '{topic="t",channel="c#ephemeral"}'
    assert labels({"a": 'b"\\\n'}) == r'{a="b\"\\\n"}'


@given(st.dictionaries(st.from_regex("[a-z]+", fullmatch=True), st.text(max_size=8), min_size=1))
def test_no_label_becomes_another_or_another_line(pairs: dict[str, str]) -> None:
    """The reader follows Prometheus: a value ends at the first quote without a backslash."""
    shown = labels(pairs)
    assert "\n" not in shown
    found = re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"[,}]', shown)
    plain = {"n": "\n", "\\": "\\", '"': '"'}
    read = {k: re.sub(r"\\(.)", lambda each: plain[each[1]], value) for k, value in found}
    assert read == pairs


def test_a_metric_with_its_samples() -> None:
    metric = Metric("depth", "gauge", "Back\\slash\nand line.")
    assert metric.text() == ""
    metric.add(3, labels({"topic": "t"}))
    metric.add(4)
    assert metric.text() == (
        '# HELP depth Back\\\\slash\\nand line.\n# TYPE depth gauge\ndepth{topic="t"} 3\ndepth 4\n'
    )


def test_a_summary() -> None:
    metric = Metric("latency_seconds", "summary", "Time.")
    metric.summarize({"topic": "t"}, [(0.99, 1.25), (0.5, math.nan)], 7.5, 3)
    assert metric.text().splitlines()[2:] == [
        'latency_seconds{topic="t",quantile="0.99"} 1.25',
        'latency_seconds{topic="t",quantile="0.5"} NaN',
        'latency_seconds_sum{topic="t"} 7.5',
        'latency_seconds_count{topic="t"} 3',
    ]


def test_names_of_counters_say_so() -> None:
    with pytest.raises(AssertionError):
        Metric("messages", "counter", "")
    with pytest.raises(AssertionError):
        Metric("messages_total", "gauge", "")

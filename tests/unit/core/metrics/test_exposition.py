from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.metrics.declared import Kind, Metric
from penstock.core.metrics.exposition import Samples, labels, number


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
    metric = Samples(Metric("depth", Kind.GAUGE, "Back\\slash\nand line.", "", ("topic",)))
    assert metric.text() == ""
    metric.add(3, labels({"topic": "t"}))
    metric.add(4)
    assert metric.text() == (
        '# HELP depth Back\\\\slash\\nand line.\n# TYPE depth gauge\ndepth{topic="t"} 3\ndepth 4\n'
    )


def test_a_summary() -> None:
    metric = Samples(Metric("latency_seconds", Kind.SUMMARY, "Time.", "seconds", ("topic",)))
    metric.summarize({"topic": "t"}, [(0.99, 1.25), (0.5, math.nan)], 7.5, 3)
    assert metric.text().splitlines()[2:] == [
        'latency_seconds{topic="t",quantile="0.99"} 1.25',
        'latency_seconds{topic="t",quantile="0.5"} NaN',
        'latency_seconds_sum{topic="t"} 7.5',
        'latency_seconds_count{topic="t"} 3',
    ]


def test_a_single_sample_has_the_labels_that_are_declared() -> None:
    metric = Metric("build", Kind.GAUGE, "Versions.", "", ("version", "python"))
    shown = Samples.single(metric, 1, "2.0", "3.11").text()
    assert shown.splitlines()[2] == 'build{version="2.0",python="3.11"} 1'
    with pytest.raises(ValueError, match="shorter"):
        Samples.single(metric, 1, "2.0")

"""Metrics as declared and as Prometheus reads them."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.metrics import replication
from penstock.core.metrics.catalogue import ALL, PARTS
from penstock.core.metrics.declared import BYTES, SECONDS, TIMESTAMP, Kind, Metric, MetricList
from penstock.core.metrics.exposition import Samples, labels, number
from tests.metrics_pages import metrics_of

each_metric = pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)


def test_a_name_is_declared_once() -> None:
    assert not [name for name, count in Counter(m.name for m in ALL).items() if count > 1]


@each_metric
def test_names_state_the_unit_and_helps_are_sentences(metric: Metric) -> None:
    assert re.fullmatch(r"(nsqd|nsqlookupd|nsqadmin|mqnamesrv|mqbroker|process|python_gc|penstock)"
                        r"_[a-z0-9_]+", metric.name)  # fmt: skip
    base = metric.name.removesuffix("_total")
    assert (metric.unit in (SECONDS, TIMESTAMP)) == base.endswith("_seconds")
    assert (metric.unit == BYTES) == base.endswith(("_bytes", "_bytes_max"))
    assert metric.help.endswith(".")
    assert not metric.help[0].islower()


def test_every_program_has_its_versions_and_whether_it_is_ready() -> None:
    for program in {program for part in PARTS for program in part.programs}:
        assert {"penstock_info", "penstock_ready"} < {each.name for each in metrics_of(program)}


def test_a_list_keeps_the_order_of_its_metrics() -> None:
    found = MetricList()
    size = found.gauge("size_bytes", "Size.", BYTES, "topic")
    count = found.counter("messages_total", "Messages.")
    time = found.summary("pause_seconds", "Pauses.")
    assert found.metrics == [size, count, time]
    assert size == Metric("size_bytes", Kind.GAUGE, "Size.", BYTES, ("topic",))
    assert (count.kind, time.kind) == (Kind.COUNTER, Kind.SUMMARY)


def test_names_of_counters_say_so() -> None:
    with pytest.raises(AssertionError):
        MetricList().counter("messages", "")
    with pytest.raises(AssertionError):
        MetricList().gauge("messages_total", "")


# --- The metrics of a second copy as declared ----------------------------------------------------


def test_they_are_nsqd_s_and_named_after_it() -> None:
    assert set(replication.LIST.metrics) <= set(metrics_of("nsqd"))
    assert not set(replication.LIST.metrics) & set(metrics_of("nsqlookupd"))
    assert all(metric.name.startswith("nsqd_") for metric in replication.LIST.metrics)


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

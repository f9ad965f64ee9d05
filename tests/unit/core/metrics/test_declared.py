from __future__ import annotations

import pytest

from penstock.core.metrics.declared import BYTES, Kind, Metric, MetricList


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

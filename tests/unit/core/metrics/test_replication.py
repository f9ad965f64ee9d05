"""The metrics of a second copy as declared."""

from __future__ import annotations

from penstock.core.metrics import replication
from tests.metrics_pages import metrics_of


def test_they_are_nsqd_s_and_named_after_it() -> None:
    assert set(replication.LIST.metrics) <= set(metrics_of("nsqd"))
    assert not set(replication.LIST.metrics) & set(metrics_of("nsqlookupd"))
    assert all(metric.name.startswith("nsqd_") for metric in replication.LIST.metrics)

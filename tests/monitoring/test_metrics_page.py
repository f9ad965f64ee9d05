from __future__ import annotations

import pytest

from penstock.core.metrics.catalogue import ALL
from penstock.core.metrics.declared import Metric
from tools.monitoring.metrics_page import page


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_every_metric_has_a_row(metric: Metric) -> None:
    assert f"| `{metric.name}` | {metric.kind} | {metric.unit} |" in page()

from __future__ import annotations

import re
from collections import Counter

import pytest

from penstock.core.metrics.catalogue import ALL, PARTS
from penstock.core.metrics.declared import BYTES, SECONDS, TIMESTAMP, Metric
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

"""Metrics of pipelines."""

from __future__ import annotations

from penstock.log_api.pipeline_status import ToldStatus
from penstock.nsq.nsqd.stats.prometheus import of_pipelines


def test_each_figure_of_each_pipeline() -> None:
    pipelines = [
        ToldStatus("1", "a", "running", rows_read=5, read_per_s=2.5, batch_ms=1500, lag=7),
        ToldStatus("2", "a", "failed", error="e", error_at=1.5, age=3.25, state_bytes=9),
    ]
    text = "".join(metric.text() for metric in of_pipelines(pipelines))
    for line in (
        'running{pipeline="a",id="1"} 1', 'running{pipeline="a",id="2"} 0',
        'failed{pipeline="a",id="2"} 1', 'rows_read_total{pipeline="a",id="1"} 5',
        'read_rate{pipeline="a",id="1"} 2.5', 'batch_seconds{pipeline="a",id="1"} 1.5',
        'lag{pipeline="a",id="1"} 7', 'error_time_seconds{pipeline="a",id="2"} 1.5',
        'age_seconds{pipeline="a",id="2"} 3.25', 'state_bytes{pipeline="a",id="2"} 9',
    ):  # fmt: skip
        assert f"nsqd_pipeline_{line}\n" in text
    assert "".join(metric.text() for metric in of_pipelines([])) == ""


def test_a_lag_is_told_where_it_is_so_that_those_of_nodes_add_up() -> None:
    groups = [("orders", "lake")]
    here = ToldStatus("1", "a", "running", groups=groups, lag=7, lag_is_here=True)
    elsewhere = ToldStatus("1", "a", "running", groups=groups, lag=9)
    lags = [
        "nsqd_pipeline_lag{" in "".join(metric.text() for metric in of_pipelines([each]))
        for each in (here, elsewhere)
    ]
    assert lags == [True, False]

from __future__ import annotations

import re

import pytest

from penstock.core.metrics.catalogue import ALL
from tools.monitoring.alerts import Alert, Settings, groups

EVERY = [alert for group in groups() for alert in group.alerts]
each_alert = pytest.mark.parametrize("alert", EVERY, ids=lambda alert: alert.name)


@each_alert
def test_an_alert_reads_figures_that_there_are(alert: Alert) -> None:
    names = {metric.name for metric in ALL} | {"up"}
    read = set(re.findall(r"\b[a-z]+_[a-z0-9_]+\b|\bup\b", alert.expr)) - {"predict_linear"}
    assert read
    assert read <= names


@each_alert
def test_an_alert_says_what_to_do(alert: Alert) -> None:
    assert alert.remedy.endswith(".")
    assert alert.severity in ("critical", "warning")


def test_names_are_given_once() -> None:
    assert len({alert.name for alert in EVERY}) == len(EVERY)


@pytest.mark.parametrize(
    ("seconds", "speed", "shown"),
    [(60, 1, "1m"), (90, 1, "90s"), (7200, 1, "2h"), (86400, 1, "1d"), (600, 60, "10s"),
     (60, 120, "0s"), (0, 1, "0s")],
)  # fmt: skip
def test_durations(seconds: int, speed: int, shown: str) -> None:
    assert Settings(speed=speed).time(seconds) == shown

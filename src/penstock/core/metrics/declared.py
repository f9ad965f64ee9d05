"""Declarations of metrics: name, kind, help, unit and labels.

    LIST = MetricList()
    TOPIC_DEPTH = LIST.gauge("nsqd_topic_depth", "Messages that …", MESSAGES, "topic")

The pages of the programs, the reference in docs/metrics.md, the dashboard and the alert rules are
made of the same declarations.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

MESSAGES: Final = "messages"
BYTES: Final = "bytes"
SECONDS: Final = "seconds"
TIMESTAMP: Final = "seconds since 1970"
FLAG: Final = "0 or 1"
RATE: Final = "messages a second"
COUNT: Final = ""
"""The unit of what is counted in pieces that the help names."""


class Kind(StrEnum):
    """The Prometheus types of metrics that are used."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"


class Metric(NamedTuple):
    """One metric. Its samples have exactly these labels, a summary's quantiles one more."""

    name: str
    kind: Kind
    help: str
    unit: str
    labels: tuple[str, ...]


class MetricList:
    """The metrics of one part of a program, in the order of its page."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def gauge(self, name: str, help: str, unit: str = COUNT, *labels: str) -> Metric:
        """Declare a value that goes up and down."""
        return self._add(name, Kind.GAUGE, help, unit, labels)

    def counter(self, name: str, help: str, unit: str = COUNT, *labels: str) -> Metric:
        """Declare a value that only grows, until the program starts again."""
        return self._add(name, Kind.COUNTER, help, unit, labels)

    def summary(self, name: str, help: str, unit: str = COUNT, *labels: str) -> Metric:
        """Declare quantiles, with sum and count of all time."""
        return self._add(name, Kind.SUMMARY, help, unit, labels)

    def _add(self, name: str, kind: Kind, help: str, unit: str, labels: tuple[str, ...]) -> Metric:
        assert name.endswith("_total") == (kind is Kind.COUNTER), name
        metric = Metric(name, kind, help, unit, labels)
        self.metrics.append(metric)
        return metric

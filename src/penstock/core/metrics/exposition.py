"""The text in which Prometheus reads metrics, version 0.0.4.

    # HELP nsqd_topic_depth Messages that no channel has been given yet.
    # TYPE nsqd_topic_depth gauge
    nsqd_topic_depth{topic="events"} 17

All samples of a metric stand together under its head, so they are gathered per metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.core.metrics.declared import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def labels(pairs: Mapping[str, str]) -> str:
    """``{name="value",…}``, or nothing; values may hold anything."""
    if not pairs:
        return ""
    shown = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items())
    return f"{{{shown}}}"


def number(value: float) -> str:
    """A value as Prometheus reads it: ``17``, ``0.5``, ``1e-07``, ``NaN``, ``+Inf``."""
    if isinstance(value, int):
        return str(int(value))  # a bool is 0 or 1
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


class Samples:
    """A metric and its values now."""

    __slots__ = ("_lines", "_name", "metric")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._name = metric.name
        self._lines: list[str] = []

    @classmethod
    def single(cls, metric: Metric, value: float, *values: str) -> Samples:
        """A metric with one sample; the values of its labels follow, in their order."""
        samples = cls(metric)
        samples.add(value, labels(dict(zip(metric.labels, values, strict=True))))
        return samples

    def add(self, value: float, shown_labels: str = "") -> None:
        """Add a sample; its labels as ``labels`` shows them."""
        self._lines.append(f"{self._name}{shown_labels} {number(value)}\n")

    def summarize(
        self,
        pairs: Mapping[str, str],
        quantiles: Iterable[tuple[float, float]],
        total: float,
        count: int,
    ) -> None:
        """Add the samples of a summary: (quantile, value) each, then sum and count of all time."""
        for quantile, value in quantiles:
            self.add(value, labels({**pairs, "quantile": number(quantile)}))
        shown = labels(pairs)
        self._lines.append(f"{self._name}_sum{shown} {number(total)}\n")
        self._lines.append(f"{self._name}_count{shown} {number(count)}\n")

    def text(self) -> str:
        """Head and samples; nothing at all without samples."""
        if not self._lines:
            return ""
        name, help = self._name, self.metric.help.translate(_HELP_ESCAPES)
        head = f"# HELP {name} {help}\n# TYPE {name} {self.metric.kind}\n"
        return head + "".join(self._lines)

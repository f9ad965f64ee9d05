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

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def labels(pairs: Mapping[str, str]) -> str:
    """`{name="value",…}`, or nothing; values may hold anything."""
    if not pairs:
        return ""
    shown = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items())
    return f"{{{shown}}}"


def number(value: float) -> str:
    """A value as Prometheus reads it: `17`, `0.5`, `1e-07`, `NaN`, `+Inf`."""
    if isinstance(value, int):
        return str(int(value))  # a bool is 0 or 1
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


class Metric:
    """One metric and its samples. ``kind`` is gauge, counter (named `…_total`) or summary."""

    __slots__ = ("_head", "_name", "_samples")

    def __init__(self, name: str, kind: str, help: str) -> None:
        assert kind in ("gauge", "counter", "summary")
        assert name.endswith("_total") == (kind == "counter"), name
        self._name = name
        self._head = f"# HELP {name} {help.translate(_HELP_ESCAPES)}\n# TYPE {name} {kind}\n"
        self._samples: list[str] = []

    def add(self, value: float, shown_labels: str = "") -> None:
        """A sample; its labels as `labels` shows them."""
        self._samples.append(f"{self._name}{shown_labels} {number(value)}\n")

    def summarize(
        self,
        pairs: Mapping[str, str],
        quantiles: Iterable[tuple[float, float]],
        total: float,
        count: int,
    ) -> None:
        """The samples of a summary: (quantile, value) each, then sum and count of all time."""
        for quantile, value in quantiles:
            self.add(value, labels({**pairs, "quantile": number(quantile)}))
        shown = labels(pairs)
        self._samples.append(f"{self._name}_sum{shown} {number(total)}\n")
        self._samples.append(f"{self._name}_count{shown} {number(count)}\n")

    def text(self) -> str:
        """Head and samples; nothing at all without samples."""
        return self._head + "".join(self._samples) if self._samples else ""

"""docs/metrics.md: every metric, as it is declared."""

from __future__ import annotations

from penstock.core.metrics.catalogue import PARTS, Part
from penstock.core.metrics.declared import Metric

HEAD = """# Metrics

Every metric of every program, for [Prometheus](monitoring.md). The page is written by
`make pages` from the list that the programs use. A counter only grows, and begins at 0 when
the program starts again; a summary has samples with the label `quantile`, and `_sum` and `_count`
of all time. Every figure is kept anyway and read when it is asked for: nothing is counted a second
time for this page, and nothing for a single message.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(_section, PARTS)])


def _section(part: Part) -> str:
    head = ["| metric | kind | unit | labels | |", "|---|---|---|---|---|"]
    rows = [_row(metric) for metric in part.metrics]
    where = f"{part.where[0].upper()}{part.where[1:]}."
    return "\n".join([f"## {part.title}", "", where, "", *head, *rows, ""])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"

"""The alerts as files: Prometheus' rules, promtool's tests of them, and a table for people.

YAML is written without a library; a JSON string is one of YAML's, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from .alerts import Alert, Group, Series, Settings

_HEAD = "# Written by `make pages` from the list of metrics (docs/monitoring.md).\n"
_MINUTES = 119
"""The minute of a test at which an alert that fires has done so."""


def rules(groups: Iterable[Group], settings: Settings | None = None) -> str:
    """The rule file."""
    time = (settings or Settings()).time
    lines = [_HEAD + "groups:"]
    for group in groups:
        lines += [f"  - name: penstock-{group.name}", "    rules:"]
        for alert in group.alerts:
            lines += [
                f"      - alert: {alert.name}",
                f"        expr: {json.dumps(alert.expr)}",
                *([f"        for: {time(alert.wait)}"] if alert.wait else []),
                "        labels:",
                f"          severity: {alert.severity}",
                "        annotations:",
                f"          summary: {json.dumps(alert.summary)}",
                f"          description: {json.dumps(alert.remedy)}",
            ]
    return "\n".join([*lines, ""])


def rule_tests(rule_file: str, groups: Iterable[Group]) -> str:
    """A file for `promtool test rules`: each alert fires on some figures, and not on others."""
    lines = [f"rule_files: [{json.dumps(rule_file)}]", "evaluation_interval: 1m", "tests:"]
    for alert in (alert for group in groups for alert in group.alerts):
        lines += _test(alert, alert.fires, 1)
        lines += _test(alert, alert.quiet, 0)
    return "\n".join([*lines, ""])


def _test(alert: Alert, series: Series, count: int) -> Iterator[str]:
    firing = f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) or vector(0)'
    yield "  - interval: 1m"
    yield "    input_series:"
    for name, values in series.items():
        yield f"      - series: {json.dumps(name)}"
        yield f"        values: {json.dumps(values)}"
    yield "    promql_expr_test:"
    yield f"      - expr: {json.dumps(firing)}"
    yield f"        eval_time: {_MINUTES}m"
    yield "        exp_samples:"
    yield "          - labels: '{}'"
    yield f"            value: {count}"


def table(groups: Iterable[Group]) -> str:
    """The table of docs/monitoring.md."""
    time = Settings().time
    rows = [
        f"| `{alert.name}` | {alert.severity} | {time(alert.wait) if alert.wait else 'at once'} "
        f"| `{alert.expr.replace('|', chr(92) + '|')}` | {alert.remedy} |"
        for group in groups
        for alert in group.alerts
    ]
    return "\n".join(["| alert | severity | after | |  |", "|---|---|---|---|---|", *rows, ""])

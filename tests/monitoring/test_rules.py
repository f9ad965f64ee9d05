"""The alert rules by Prometheus' own checker: each fires on its figures, and not on others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.monitoring.prometheus import promtool
from tests.page_blocks import sample
from tools.monitoring.alerts import Alert, groups
from tools.monitoring.generated import ROOT, RULES
from tools.monitoring.rules import rule_tests

pytestmark = pytest.mark.nightly


def test_the_configuration_and_the_rules_are_prometheus() -> None:
    promtool("check", "config", str(ROOT / "deploy" / "prometheus" / "prometheus.yml"))
    count = sum(len(group.alerts) for group in groups())
    assert f"{count} rules found" in promtool("check", "rules", str(RULES))


def test_the_page_has_a_configuration_and_queries_of_prometheus(tmp_path: Path) -> None:
    config, rules = tmp_path / "prometheus.yml", tmp_path / "rules.yml"
    config.write_text(sample("monitoring.md", "```yaml"))
    promtool("check", "config", str(config))
    lines = sample("monitoring.md", "```promql").splitlines()
    queries = [line for line in lines if not line.startswith("#")]
    rows = [f"{{record: 'r{n}', expr: {json.dumps(query)}}}" for n, query in enumerate(queries)]
    rules.write_text(f"groups: [{{name: page, rules: [{', '.join(rows)}]}}]\n")
    assert f"{len(queries)} rules found" in promtool("check", "rules", str(rules))


def test_every_alert_fires_on_its_figures_and_not_on_others(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_text(rule_tests(str(RULES), groups()))
    assert "SUCCESS" in promtool("test", "rules", str(tests))


@pytest.mark.parametrize("field", ["fires", "quiet"])
def test_the_checker_notices_an_alert_that_does_not_follow_its_figures(
    tmp_path: Path, field: str
) -> None:
    (group, *_) = groups()
    alert = group.alerts[0]
    other: Alert = alert._replace(fires=alert.quiet, quiet=alert.fires)
    swapped = alert._replace(**{field: getattr(other, field)})
    tests = tmp_path / "tests.yml"
    tests.write_text(rule_tests(str(RULES), [group._replace(alerts=(swapped,))]))
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", str(tests))

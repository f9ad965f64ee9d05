"""The files that `make pages` writes from the list of metrics."""

from __future__ import annotations

from pathlib import Path

from .alerts import groups
from .dashboard import dashboard
from .metrics_page import page
from .rules import rules, table

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "penstock.json"
METRICS = ROOT / "docs" / "metrics.md"
MONITORING = ROOT / "docs" / "monitoring.md"
_BEGIN = "<!-- alerts: written by `make pages` -->\n"
_END = "<!-- end of alerts -->\n"


def files() -> dict[Path, str]:
    """Every file with what it should have."""
    return {
        RULES: rules(groups()),
        DASHBOARD: dashboard(),
        METRICS: page(),
        MONITORING: _with_table(MONITORING.read_text(encoding="utf-8")),
    }


def _with_table(text: str) -> str:
    before, _, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, f"{MONITORING.name} has no place for the table"
    return f"{before}{_BEGIN}\n{table(groups())}\n{_END}{after}"


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""All pages show the figures of one run, and say which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages.figures import PARTS, beside_go, conditions, files, of_a_core, run

MADE_UP = {
    "mpub 200, equal": {
        "penstock": {"msg_per_s": 2_000_000, "server_cpu_us_per_msg": 0.5},
        "go": {"msg_per_s": 400_000, "server_cpu_us_per_msg": 2.5},
        "go, memory": {"msg_per_s": 2_500_000, "server_cpu_us_per_msg": 0.4},
    }
}


@pytest.mark.parametrize("page", files(), ids=lambda page: str(page.name))
def test_a_page_has_the_figures_of_the_run(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == files()[page], "run `python -m tools.pages.figures`"


def test_the_run_has_what_the_pages_show() -> None:
    known = run()
    assert len(PARTS.keys() & known["figures"].keys()) >= 6
    assert known["commit"] in conditions(known)


def test_rates_and_ratios() -> None:
    assert beside_go(MADE_UP).splitlines()[-1] == (
        "| MPUB of 200, 2 connections | 2,000 k/s | 400 k/s | 5.0 x | 2,500 k/s | 0.80 x |"
    )
    more = MADE_UP | {"tls, mpub 200": MADE_UP["mpub 200, equal"]}
    assert beside_go(more) == beside_go(MADE_UP)
    assert "| tls, mpub 200 | 2,000 k/s |" in beside_go(more, every=True)
    assert of_a_core(MADE_UP).splitlines()[-1] == (
        "| MPUB of 200, 2 connections | 2,000 k/s | 0.5 us |"
    )

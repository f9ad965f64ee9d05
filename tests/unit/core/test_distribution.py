"""The name that pip knows, in one place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from penstock.core.distribution import DISTRIBUTION, pip_install

ROOT = Path(__file__).parents[3]
OF_ANOTHER_PROJECT = re.compile(r"pip install ['\"]?penstock(?!-mq)\b|\bpenstock\[")
PLACES = ("src", "docs", "examples", "deploy", "tools", "bench")


def test_a_command_names_the_extras() -> None:
    assert pip_install("spark") == "pip install 'penstock-mq[spark]'"
    assert pip_install("spark", "demo") == "pip install 'penstock-mq[spark,demo]'"


def test_it_is_what_is_built() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION


def test_nothing_advises_to_install_another_project() -> None:
    texts = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.is_file()]
    kinds = {".py", ".md", ".ipynb", ".toml", ".yaml", ".Dockerfile", ".js"}
    read = [path for path in [*texts, *ROOT.glob("*.md")] if path.suffix in kinds]
    assert len(read) > 500
    found = [path for path in read if OF_ANOTHER_PROJECT.search(path.read_text(encoding="utf-8"))]
    assert found == []
